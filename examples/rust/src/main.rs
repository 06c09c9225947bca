//! The digits model from Rust, with the standard library alone: the compiled library is opened with dlopen.
//!
//!     cresset compile examples/digits/digits.pt2 -o libdigits.so
//!     cargo run --offline --manifest-path examples/rust/Cargo.toml -- ./libdigits.so examples/digits/images.npy examples/digits/labels.npy
mod model;

use model::{Input, Model};
use std::{env, error::Error, fs, process::ExitCode};

/// The numbers behind NumPy's header of 128 bytes.
fn read_npy<const SIZE: usize, T>(path: &str, decode: impl Fn([u8; SIZE]) -> T) -> Result<Vec<T>, Box<dyn Error>> {
    let bytes = fs::read(path).map_err(|error| format!("cannot read {path}: {error}"))?;
    let data = bytes.get(128..).ok_or(format!("{path} is too short"))?;
    Ok(data.chunks_exact(SIZE).map(|item| decode(item.try_into().unwrap())).collect())
}

fn run() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = env::args().collect();
    let [_, library, images, labels] = args.as_slice() else { return Err("usage: classify libdigits.so images.npy labels.npy".into()) };
    let images = read_npy(images, f32::from_le_bytes)?;
    let labels = read_npy(labels, i64::from_le_bytes)?;
    let model = Model::open(library)?;
    let count = images.len() / 64;
    let results = model.run(0, &[Input { data: &images, size: &[count as i64, 8, 8] }])?;
    let digits: &[i64] = results[0].data()?;
    let right = digits.iter().zip(&labels).filter(|(said, is)| said == is).count();
    println!("{right} of {count} digits right");
    Ok(())
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
