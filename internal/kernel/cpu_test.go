package kernel

import (
	"os"
	"testing"
)

// TestLimit: the environment takes sets of kernels away, and one that it does not know is an error.
func TestLimit(t *testing.T) {
	t.Setenv(LimitVariable, "")
	os.Unsetenv(LimitVariable)
	all2, all512 := hasAVX2(), hasAVX512()
	for name, want := range map[string][2]bool{"plain": {}, "avx2": {all2, false}, "avx512": {all2, all512}} {
		t.Setenv(LimitVariable, name)
		if got := [2]bool{hasAVX2(), hasAVX512()}; got != want || CheckLimit() != nil {
			t.Errorf("%s: got %v, %v, want %v", name, got, CheckLimit(), want)
		}
	}
	t.Setenv(LimitVariable, "sse")
	if CheckLimit() == nil {
		t.Error("sse is taken")
	}
}
