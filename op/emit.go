package op

import "github.com/galley-ml/galley/internal/hlo"

// emitBinary broadcasts the operands to the result's shape and writes a binary op.
func emitBinary(w *hlo.Writer, name string, in []hlo.Ref, out Type) []hlo.Ref {
	x, y := emitBroadcast(w, in[0], out), emitBroadcast(w, in[1], out)
	return []hlo.Ref{w.Op(name, "", hloType(out), x, y)}
}

// emitBroadcast broadcasts x to out's shape, matching dims from the last.
func emitBroadcast(w *hlo.Writer, x hlo.Ref, out Type) hlo.Ref {
	if x.Shape.Equal(out.Shape) {
		return x
	}
	dims := make([]int, len(x.Shape))
	for i := range dims {
		dims[i] = len(out.Shape) - len(x.Shape) + i
	}
	return w.Broadcast(x, out.Shape, dims)
}

// emitFold reduces x along dims; 16-bit floats are reduced in float32, to keep their digits.
func emitFold(w *hlo.Writer, binary string, x hlo.Ref, init float64, dims []int, out Type) hlo.Ref {
	x = w.Convert(x, x.DType.Compute())
	return w.Convert(w.Reduce(binary, x, init, dims, hlo.Type{DType: x.DType, Shape: out.Shape}), out.DType)
}
