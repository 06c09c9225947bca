// classify.cpp: the digits model from C++.
//
//     cresset compile examples/digits/digits.pt2 -o libdigits.so
//     c++ -std=c++17 examples/cpp/classify.cpp -I include ./libdigits.so -o classify
//     ./classify examples/digits/images.npy examples/digits/labels.npy
#include "model.hpp"

#include <fstream>
#include <iostream>

template <class T> std::vector<T> read_npy(const char *path, size_t count) {
    std::vector<T> data(count);
    std::ifstream file(path, std::ios::binary);
    file.seekg(128); // NumPy's header
    if (!file.read(reinterpret_cast<char *>(data.data()), static_cast<std::streamsize>(count * sizeof(T)))) throw std::runtime_error(std::string("cannot read ") + path);
    return data;
}

int main(int argc, char **argv) try {
    if (argc != 3) throw std::runtime_error("usage: classify images.npy labels.npy");
    auto images = read_npy<float>(argv[1], 200 * 64);
    auto labels = read_npy<int64_t>(argv[2], 200);
    cresset::Model model;
    std::vector<int64_t> size{200, 8, 8};
    auto results = model.run({cresset::Model::tensor(images.data(), size)});
    int right = 0;
    for (int i = 0; i < 200; i++) right += results[0].data<int64_t>()[i] == labels[i];
    std::cout << right << " of 200 digits right\n";
} catch (const std::exception &error) {
    std::cerr << error.what() << '\n';
    return 1;
}
