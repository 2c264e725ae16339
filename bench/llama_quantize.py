"""Has llama.cpp itself write a GGUF file of another: llama_quantize.py LIBRARIES FILE OUT TYPE.

LIBRARIES is the folder of node-llama-cpp's libraries for Linux; TYPE is one of TYPES. The library is called
without its header: of its settings only the two first ones are set, threads and type.
"""
import ctypes
import glob
import sys

TYPES = {"F32": 0, "F16": 1, "Q4_0": 2, "Q4_1": 3, "Q8_0": 7, "Q5_0": 8, "Q5_1": 9, "Q2_K": 10, "Q3_K_M": 12,
         "Q4_K_M": 15, "Q5_K_M": 17, "Q6_K": 18, "BF16": 32}


class Settings(ctypes.Structure):
    _fields_ = [("threads", ctypes.c_int32), ("type", ctypes.c_int32), ("others", ctypes.c_byte * 248)]


def main():
    folder, file, out, kind = sys.argv[1:]
    ggml = ctypes.CDLL(glob.glob(folder + "/libggml.*so*")[0], mode=ctypes.RTLD_GLOBAL)
    llama = ctypes.CDLL(glob.glob(folder + "/libllama.*so*")[0])
    quiet = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)(lambda *_: None)
    llama.llama_log_set(quiet, None)
    ggml.ggml_backend_load_all_from_path(folder.encode())
    llama.llama_model_quantize_default_params.restype = Settings
    settings = llama.llama_model_quantize_default_params()
    settings.threads, settings.type = 1, TYPES[kind]
    sys.exit(llama.llama_model_quantize(file.encode(), out.encode(), ctypes.byref(settings)))


main()
