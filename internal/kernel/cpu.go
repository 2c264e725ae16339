package kernel

import "golang.org/x/sys/cpu"

// hasAVX2 says whether the processor runs the AVX2 kernels, which need fused
// multiply-add too.
func hasAVX2() bool { return cpu.X86.HasAVX2 && cpu.X86.HasFMA && cpu.X86.HasBMI2 }

// hasAVX512 says whether the processor runs the AVX-512 kernels.
func hasAVX512() bool {
	x := &cpu.X86
	return hasAVX2() && x.HasAVX512F && x.HasAVX512BW && x.HasAVX512DQ && x.HasAVX512VL
}
