package ptx

import (
	"strings"
	"testing"
)

// TestFits: kernels are for whole tiles, in pairs one below the other, and whole rounds of the ring.
func TestFits(t *testing.T) {
	for _, c := range []struct {
		name string
		fits bool
		want bool
	}{
		{"smallest", GatedProduct{256, 256, 128}.Fits(), true},
		{"half a pair of tiles", GatedProduct{128, 256, 128}.Fits(), false},
		{"half a tile", GatedProduct{256, 256, 64}.Fits(), false},
		{"half a round", GatedProduct{256, 128, 128}.Fits(), false},
		{"no rows", GatedProduct{0, 256, 128}.Fits(), false},
		{"too large to count", GatedProduct{1 << 24, 256, 1 << 12}.Fits(), false},
		{"gradient", GatedGradient{256, 256, 256}.Fits(), true},
		{"gradient of half a tile", GatedGradient{256, 256, 128}.Fits(), false},
		{"heads", RoPEProduct{512, 256, 256, 64, []int{512, 256}, []int{256}}.Fits(), true},
		{"one array only", RoPEProduct{512, 256, 256, 64, []int{256}, nil}.Fits(), true},
		{"nothing to turn", RoPEProduct{512, 256, 256, 64, nil, []int{256}}.Fits(), false},
		{"a head of two tiles", RoPEProduct{512, 256, 256, 512, []int{512}, nil}.Fits(), false},
		{"a head of 96", RoPEProduct{512, 256, 256, 96, []int{768}, nil}.Fits(), false},
		{"an array of half a tile", RoPEProduct{512, 256, 256, 64, []int{384, 384}, nil}.Fits(), false},
		{"part of a sequence", RoPEProduct{512, 256, 300, 64, []int{256}, nil}.Fits(), false},
	} {
		if c.fits != c.want {
			t.Errorf("%s: fits is %v, want %v", c.name, c.fits, c.want)
		}
	}
}

// TestShare: 66 pairs of units take tiles in rounds.
func TestShare(t *testing.T) {
	for _, c := range []struct {
		rows, cols int
		want       float64
	}{
		{256, 256, 1. / 66}, {256 * 66, 256, 1}, {256 * 33, 512, 1}, {256 * 67, 256, 67. / 132}, {16384, 11264,
			2816. / 2838},
	} {
		if got := share(c.rows, c.cols); got != c.want {
			t.Errorf("%d by %d: got %g, want %g", c.rows, c.cols, got, c.want)
		}
	}
}

// TestMemory: what a kernel says that it needs is what it uses, and no more than a unit has.
func TestMemory(t *testing.T) {
	const most = 227 << 10
	for _, k := range []Kernel{
		GatedProduct{256, 256, 128}.Kernel(), GatedGradient{256, 256, 256}.Kernel(), RoPEProduct{512, 256, 256,
			64, []int{256, 256}, []int{256}}.Kernel(),
	} {
		maps := strings.Count(k.Text, "tensormap.cp_fenceproxy")
		if k.Shared != mapsAt+maps*mapBytes || k.Shared > most {
			t.Errorf("%s: %d bytes of a unit's memory for %d maps, want %d and no more than %d", k.Name, k.Shared,
				maps, mapsAt+maps*mapBytes, most)
		}
		if k.Scratch != k.Blocks*maps*mapBytes {
			t.Errorf("%s: %d bytes for %d maps of %d units", k.Name, k.Scratch, maps, k.Blocks)
		}
	}
}
