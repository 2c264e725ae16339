package mesh

import (
	"fmt"
	"slices"
	"sort"
)

// Transfer is a part of a tensor that one device sends to another, or copies if both are the same.
type Transfer struct {
	From, To int
	Box      Box
}

// Local reports whether the transfer stays on its device.
func (t Transfer) Local() bool { return t.From == t.To }

// String returns the two devices and the box: 0>4 [0:2,0:8].
func (t Transfer) String() string { return fmt.Sprintf("%d>%d %s", t.From, t.To, t.Box) }

// Intersect returns the transfers that change the layout of a tensor, on the same mesh or between meshes.
// Each device of the target gets every element of its part exactly once: from itself if it already holds it,
// else from the replica that has sent the least so far. So the loads of replicas differ by at most one box.
// Transfers are ordered by target device in mesh order, then by position. Layouts with partial axes are an
// error: reduce them first.
func Intersect(from, to *Layout) ([]Transfer, error) {
	if !slices.Equal(from.shape, to.shape) {
		return nil, fmt.Errorf("intersect: layouts of different tensors: got shapes %v and %v", from.shape,
			to.shape)
	}
	for _, l := range []*Layout{from, to} {
		if len(l.spec.Partial) > 0 {
			return nil, fmt.Errorf("intersect: %s to %s: got partial axes, want them combined first", from.spec,
				to.spec)
		}
	}
	x := newIntersection(from, to)
	for i := range to.mesh.size {
		x.receive(i)
	}
	return x.transfers, nil
}

type intersection struct {
	from, to *Layout
	// overlaps holds, for each dim and position of the target, the source positions that share elements with it.
	overlaps [][][]int
	// holders holds the mesh indices of the devices with each piece of the source, sent what each has sent.
	holders   [][]int
	sent      []int
	transfers []Transfer
}

func newIntersection(from, to *Layout) *intersection {
	x := &intersection{from: from, to: to, sent: make([]int, from.mesh.size),
		holders: make([][]int, from.NumPieces())}
	for i := range from.mesh.size {
		p := from.piece(i)
		x.holders[p] = append(x.holders[p], i)
	}
	for d := range to.dims {
		list := make([][]int, len(to.dims[d].parts))
		for i, r := range to.dims[d].parts {
			list[i] = overlapping(from.dims[d].parts, r)
		}
		x.overlaps = append(x.overlaps, list)
	}
	return x
}

// overlapping returns the positions in parts, which ascend, that share elements with r.
func overlapping(parts []Range, r Range) []int {
	var list []int
	first := sort.Search(len(parts), func(i int) bool { return parts[i].Start+parts[i].Size > r.Start })
	for i := first; i < len(parts) && parts[i].Start < r.Start+r.Size; i++ {
		if parts[i].Size > 0 {
			list = append(list, i)
		}
	}
	return list
}

// receive adds the transfers to the target's device at an index.
func (x *intersection) receive(index int) {
	box, device := x.to.box(index), x.to.mesh.device(index)
	if box.Empty() {
		return
	}
	sources := []int{0}
	places := []Box{{}}
	for d := range x.to.dims {
		parts := x.from.dims[d].parts
		var nextSources []int
		var nextPlaces []Box
		for k, s := range sources {
			for _, p := range x.overlaps[d][x.to.dims[d].position(index)] {
				start := max(parts[p].Start, box.Start[d])
				size := min(parts[p].Start+parts[p].Size, box.Start[d]+box.Size[d]) - start
				nextSources = append(nextSources, s*len(parts)+p)
				nextPlaces = append(nextPlaces, places[k].extend(start, size))
			}
		}
		sources, places = nextSources, nextPlaces
	}
	for k, s := range sources {
		x.transfers = append(x.transfers, Transfer{x.sender(s, device, places[k].Len()), device, places[k]})
	}
}

// extend returns the box with one more dim.
func (b Box) extend(start, size int) Box {
	return Box{append(slices.Clip(b.Start), start), append(slices.Clip(b.Size), size)}
}

// sender chooses the device that sends n elements of a piece of the source.
func (x *intersection) sender(piece, to, n int) int {
	holders := x.holders[piece]
	if own, ok := x.from.mesh.Index(to); ok && x.from.piece(own) == piece {
		return to
	}
	best := holders[0]
	for _, h := range holders[1:] {
		if x.sent[h] < x.sent[best] {
			best = h
		}
	}
	x.sent[best] += n
	return x.from.mesh.device(best)
}
