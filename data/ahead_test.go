package data_test

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/data"
)

// TestAhead: batches come in order, the next ones are made while one is used, never more than the queue
// holds, and not too many.
func TestAhead(t *testing.T) {
	for _, depth := range []int{0, 1, 3} {
		want := int32(max(depth, 2))
		if depth == 1 {
			want = 1
		}
		var made atomic.Int32
		a := data.NewAhead(func(i int) ([]array.Array, error) {
			made.Add(1)
			return []array.Array{array.FromSlice([]int32{int32(i)}, 1)}, nil
		}, data.AheadConfig{First: 5, Count: 10, Depth: depth})
		for i := range 10 {
			b, _, err := a.Next()
			if err != nil || b[0].At(0) != float64(5+i) {
				t.Fatalf("depth %d: batch %d is %v, %v", depth, i, b, err)
			}
			full := min(int32(i)+1+want, 10)
			for deadline := time.Now().Add(10 * time.Second); made.Load() < full; {
				if time.Now().After(deadline) {
					t.Fatalf("depth %d: %d batches were made while batch %d is used, want %d", depth, made.Load(), i, full)
				}
			}
			if n := made.Load(); n > full {
				t.Fatalf("depth %d: %d batches were made, want at most %d", depth, n, full)
			}
		}
		a.Close()
		a.Close()
		if made.Load() != 10 {
			t.Errorf("%d batches were made, want 10", made.Load())
		}
	}
}

// TestAheadFails: an error and a panic reach the caller that asks for the batch, and a queue that is given up
// ends.
func TestAheadFails(t *testing.T) {
	bad := errors.New("no more")
	fail := func(i int) ([]array.Array, error) {
		switch i {
		case 2:
			return nil, bad
		case 12:
			panic("broken")
		}
		return []array.Array{}, nil
	}
	for _, depth := range []int{-1, 2} {
		a := data.NewAhead(fail, data.AheadConfig{Count: 5, Depth: depth})
		for i := range 3 {
			if _, _, err := a.Next(); (i == 2) != errors.Is(err, bad) {
				t.Errorf("batch %d: got %v", i, err)
			}
		}
		a.Close()
		func() {
			defer func() {
				if got := fmt.Sprint(recover()); got != "broken" {
					t.Errorf("got panic %v", got)
				}
			}()
			a := data.NewAhead(fail, data.AheadConfig{First: 12, Count: 5, Depth: depth})
			defer a.Close()
			a.Next()
		}()
	}
	data.NewAhead(fail, data.AheadConfig{First: 20, Count: 1000}).Close()
}
