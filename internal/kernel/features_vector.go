package kernel

// VectorSet names the instruction set of the kernels on vectors: AVX512, AVX2, or plain, which is none.
func VectorSet() string {
	all := tables()
	return all[len(all)-1].name
}
