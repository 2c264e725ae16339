package nn

import (
	"strconv"
	"strings"
)

// Marks name the stream that passes from layer to layer, so that plans can speak of it: a pipeline is cut
// where a layer begins, recomputing starts there, and sequence parallelism says the layout of the stream. A
// model of your own is marked with op.Mark(x, nn.LayerMark(i)) where layer i begins and op.Mark(x,
// nn.HeadMark) after the last.
const (
	layerMark = "layers."
	midMark   = ".mid"
	gradMark  = ".grad"
	// HeadMark is the mark of the stream after the last layer.
	HeadMark = "head"
)

// LayerMark returns the mark of the stream where layer i begins.
func LayerMark(i int) string { return layerMark + strconv.Itoa(i) }

// MidMark returns the mark of the stream within the layer of a mark.
func MidMark(layer string) string { return layer + midMark }

// LayerOf returns the number of the layer that begins at a mark, and whether one does.
func LayerOf(mark string) (int, bool) {
	number, ok := strings.CutPrefix(mark, layerMark)
	i, err := strconv.Atoi(number)
	return i, ok && err == nil
}

// IsStream reports whether a mark is one of the stream, or of its gradient.
func IsStream(mark string) bool {
	mark = strings.TrimSuffix(strings.TrimSuffix(mark, gradMark), midMark)
	_, layer := LayerOf(mark)
	return layer || mark == HeadMark
}
