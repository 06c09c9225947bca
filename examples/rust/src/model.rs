//! A compiled model as a safe Rust value. The structs are those of include/cresset/abi.h, version 1.
use std::ffi::{c_char, c_int, c_void, CStr, CString};
use std::{ptr, slice};

#[repr(C)]
#[derive(Clone, Copy)]
struct Value {
    struct_size: usize,
    kind: i32,
    dtype: i32,
    rank: i32,
    data: *mut c_void,
    size: *const i64,
    stride: *const i64,
    integer: i64,
    number: f64,
    capacity: usize,
    owner: *mut c_void,
}

#[repr(C)]
struct MethodInfo {
    name: *const c_char,
    inputs: *const c_void,
    outputs: *const c_void,
    ninputs: i32,
    noutputs: i32,
    in_spec: *const c_char,
    out_spec: *const c_char,
}

/// The head of cresset_api: later versions add fields at its end.
#[repr(C)]
struct Api {
    struct_size: usize,
    major: u32,
    minor: u32,
    name: *const c_char,
    id: *const c_char,
    methods: *const MethodInfo,
    nmethods: i32,
    state: *const c_void,
    nstate: i32,
    target: *const c_char,
    create: unsafe extern "C" fn(*const Api, *const c_void, *mut *mut c_void, *mut c_char, usize) -> c_int,
    destroy: unsafe extern "C" fn(*mut c_void),
    run: unsafe extern "C" fn(*mut c_void, i32, *const Value, i32, *mut Value, i32, *mut c_char, usize) -> c_int,
    release: unsafe extern "C" fn(*mut c_void, *mut Value),
}

extern "C" {
    fn dlopen(path: *const c_char, flags: c_int) -> *mut c_void;
    fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
    fn dlerror() -> *const c_char;
}

const RTLD_NOW: c_int = 2;
const TENSOR: i32 = 1;
const F32: i32 = 6;
const I64: i32 = 4;

impl Value {
    fn empty() -> Value {
        Value { struct_size: size_of::<Value>(), kind: 0, dtype: 0, rank: 0, data: ptr::null_mut(), size: ptr::null(), stride: ptr::null(), integer: 0, number: 0.0,
                capacity: 0, owner: ptr::null_mut() }
    }
}

/// Row-major float32 data.
pub struct Input<'a> {
    pub data: &'a [f32],
    pub size: &'a [i64],
}

/// An instance of a library. The library stays loaded until the process ends.
pub struct Model {
    api: &'static Api,
    instance: *mut c_void,
}

unsafe impl Send for Model {}
unsafe impl Sync for Model {} // runs of one instance may be made from several threads

/// One output. Its memory is the model's.
pub struct Output<'a> {
    model: &'a Model,
    value: Value,
}

fn text(message: &[u8]) -> String {
    CStr::from_bytes_until_nul(message).map(|text| text.to_string_lossy().into_owned()).unwrap_or_default()
}

impl Model {
    pub fn open(path: &str) -> Result<Model, String> {
        let name = CString::new(if path.contains('/') { path.to_string() } else { format!("./{path}") }).map_err(|error| error.to_string())?;
        unsafe {
            let library = dlopen(name.as_ptr(), RTLD_NOW);
            if library.is_null() {
                return Err(CStr::from_ptr(dlerror()).to_string_lossy().into_owned());
            }
            let symbol = dlsym(library, c"cresset_model".as_ptr());
            if symbol.is_null() {
                return Err(format!("{path} is no compiled model"));
            }
            let function: unsafe extern "C" fn(u32) -> *const Api = std::mem::transmute(symbol);
            let api = function(1).as_ref().ok_or(format!("{path} has another version of the interface"))?;
            let (mut instance, mut message) = (ptr::null_mut(), [0u8; 256]);
            if (api.create)(api, ptr::null(), &mut instance, message.as_mut_ptr().cast(), message.len()) != 0 {
                return Err(text(&message));
            }
            Ok(Model { api, instance })
        }
    }

    pub fn run(&self, method: usize, inputs: &[Input]) -> Result<Vec<Output<'_>>, String> {
        let methods = unsafe { slice::from_raw_parts(self.api.methods, self.api.nmethods as usize) };
        let count = methods.get(method).ok_or("there is no such method")?.noutputs as usize;
        let values: Vec<Value> = inputs.iter()
            .map(|input| Value { kind: TENSOR, dtype: F32, rank: input.size.len() as i32, data: input.data.as_ptr() as *mut c_void, size: input.size.as_ptr(), ..Value::empty() })
            .collect();
        if inputs.iter().any(|input| input.size.iter().product::<i64>() != input.data.len() as i64) {
            return Err("an input has another number of elements than its size says".into());
        }
        let (mut outputs, mut message) = (vec![Value::empty(); count], [0u8; 256]);
        let code = unsafe {
            (self.api.run)(self.instance, method as i32, values.as_ptr(), values.len() as i32, outputs.as_mut_ptr(), count as i32, message.as_mut_ptr().cast(), message.len())
        };
        if code != 0 {
            return Err(text(&message));
        }
        Ok(outputs.into_iter().map(|value| Output { model: self, value }).collect())
    }
}

impl Drop for Model {
    fn drop(&mut self) {
        unsafe { (self.api.destroy)(self.instance) }
    }
}

impl Output<'_> {
    /// The elements of an int64 tensor; outputs of a library are row-major unless its strides say otherwise.
    pub fn data(&self) -> Result<&[i64], String> {
        if self.value.kind != TENSOR || self.value.dtype != I64 {
            return Err("the output is no int64 tensor".into());
        }
        let size = unsafe { slice::from_raw_parts(self.value.size, self.value.rank as usize) };
        Ok(unsafe { slice::from_raw_parts(self.value.data.cast(), size.iter().product::<i64>() as usize) })
    }
}

impl Drop for Output<'_> {
    fn drop(&mut self) {
        unsafe { (self.model.api.release)(self.model.instance, &mut self.value) }
    }
}
