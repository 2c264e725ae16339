package op

import (
	"fmt"
	"slices"
	"strings"

	"github.com/galley-ml/galley/internal/hlo"
)

// window is a box that slides over a padded tensor: one number per dim.
type window struct{ size, stride, low, high []int }

// emitWindow reduces each position of the window with a binary op.
func emitWindow(w *hlo.Writer, binary string, init float64, x hlo.Ref, win window, out Type) hlo.Ref {
	attrs := fmt.Sprintf("window_dimensions = %s, window_strides = %s, padding = %s",
		hlo.Ints(win.size), hlo.Ints(win.stride), hloPadding(win.low, win.high))
	return w.OpN("reduce_window", attrs, []string{w.Binary(binary, x.DType)}, []hlo.Type{hloType(out)}, x,
		w.Constant(hlo.Type{DType: x.DType}, init))[0]
}

// hloPadding returns the attribute with each dim's padding on both sides.
func hloPadding(low, high []int) string {
	words := make([]string, len(low))
	for i := range low {
		words[i] = fmt.Sprintf("[%d, %d]", low[i], high[i])
	}
	return fmt.Sprintf("dense<[%s]> : tensor<%dx2xi64>", strings.Join(words, ", "), len(low))
}

func ones(n int) []int { return slices.Repeat([]int{1}, n) }
