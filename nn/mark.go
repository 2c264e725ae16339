package nn

import (
	"strconv"
	"strings"
)

// Marks name the hidden states between layers, so that plans can refer to them: a pipeline is split where a
// layer begins, recomputation starts there, and sequence parallelism defines the layout of the hidden states.
// Mark a model of your own with op.Mark(x, nn.LayerMark(i)) where layer i begins and op.Mark(x, nn.HeadMark)
// after the last.
const (
	layerMark = "layers."
	midMark   = ".mid"
	gradMark  = ".grad"
	// HeadMark is the mark of the hidden states after the last layer.
	HeadMark = "head"
)

// LayerMark returns the mark of the hidden states where layer i begins.
func LayerMark(i int) string { return layerMark + strconv.Itoa(i) }

// MidMark returns the mark of the hidden states within the layer of a mark.
func MidMark(layer string) string { return layer + midMark }

// LayerOf returns the number of the layer that begins at a mark, and whether one does.
func LayerOf(mark string) (int, bool) {
	number, ok := strings.CutPrefix(mark, layerMark)
	i, err := strconv.Atoi(number)
	return i, ok && err == nil
}

// IsStream reports whether a mark is one of hidden states between layers, or of their gradient.
func IsStream(mark string) bool {
	mark = strings.TrimSuffix(strings.TrimSuffix(mark, gradMark), midMark)
	_, layer := LayerOf(mark)
	return layer || mark == HeadMark
}
