package kernel

import (
	"fmt"
	"os"

	"golang.org/x/sys/cpu"
)

// LimitVariable is the environment variable with the best kernel set that a process may use: with it hosts
// with different processors compute the same bits.
const LimitVariable = "GALLEY_KERNELS"

// setRanks holds the kernel sets by name, ordered by the features they need.
var setRanks = map[string]int{"plain": 0, "avx2": 1, "avx512": 2, "": 2}

// CheckLimit returns an error if the environment names an unknown kernel set.
func CheckLimit() error {
	if name := os.Getenv(LimitVariable); !known(name) {
		return fmt.Errorf("%s=%s: want plain, avx2 or avx512", LimitVariable, name)
	}
	return nil
}

func known(name string) bool { _, ok := setRanks[name]; return ok }

// allows reports whether the environment permits a kernel set.
func allows(set string) bool { return setRanks[os.Getenv(LimitVariable)] >= setRanks[set] }

// hasAVX2 reports whether the processor runs the AVX2 kernels, which need fused
// multiply-add too.
func hasAVX2() bool {
	return allows("avx2") && cpu.X86.HasAVX2 && cpu.X86.HasFMA && cpu.X86.HasBMI2
}

// hasAVX512 reports whether the processor runs the AVX-512 kernels.
func hasAVX512() bool {
	x := &cpu.X86
	return allows("avx512") && hasAVX2() && x.HasAVX512F && x.HasAVX512BW && x.HasAVX512DQ && x.HasAVX512VL
}
