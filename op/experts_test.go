package op_test

import (
	"slices"
	"testing"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/op"
)

func TestLimitChoices(t *testing.T) {
	s := device(t, 1).NewSession()
	choice := s.Tensor(array.FromSlice([]int32{0, 1, 0, 1, 0, 2, 1, 0}, 4, 2))
	got := array.Data[int32](read(t, op.LimitChoices(choice, 3, 2)))
	if want := []int32{0, 1, 0, 1, -1, 2, -1, -1}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
