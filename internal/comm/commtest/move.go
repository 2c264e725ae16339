package commtest

import (
	"fmt"
	"slices"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/comm"
)

func moveChecks() []check {
	return []check{
		{"all_gather", worldSizes, allGather},
		{"all_to_all", worldSizes, allToAll},
		{"all_to_all_one_dim", worldSizes, allToAllOneDim},
		{"all_to_all_v", worldSizes, allToAllV},
		{"large_moves", []int{3, 4}, largeMoves},
		{"broadcast", worldSizes, broadcast},
		{"permute", worldSizes, permute},
		{"gather_scatter", worldSizes, gatherScatter},
	}
}

// shards returns the arrays of all ranks; their sizes along dim differ, and some are 0.
func shards(c comm.Comm, dtype array.DType, seed, dim int, shape ...int) []array.Array {
	xs := make([]array.Array, c.Size())
	for r, n := range unevenSizes(c.Size(), seed) {
		s := slices.Clone(shape)
		s[dim] = n
		xs[r] = Input(dtype, seed, r, s...)
	}
	return xs
}

func allGather(c comm.Comm) error {
	for seed, dtype := range array.DTypes() {
		for dim := range 3 {
			xs := shards(c, dtype, seed, dim, 2, 3, 5)
			p := everyone(c).StartAllGather(array.Array{}, xs[c.ID()], dim)
			got, err := p.Wait()
			if err != nil {
				return err
			}
			if err := same(fmt.Sprintf("dim %d", dim), got, joined(dim, xs)); err != nil {
				return err
			}
			if counts, err := p.Counts(); err != nil || !slices.Equal(counts, unevenSizes(c.Size(), seed)) {
				return fmt.Errorf("all_gather: counts: got %v %v, want %v", counts, err, unevenSizes(c.Size(), seed))
			}
		}
	}
	return nil
}

// exchanged returns the expected AllToAll result of the member at pos.
func exchanged(xs []array.Array, split, concat, pos int, sizes func(member int) []int) array.Array {
	got := make([]array.Array, len(xs))
	for m, x := range xs {
		got[m] = parts(x, split, sizes(m))[pos]
	}
	return joined(concat, got)
}

func allToAll(c comm.Comm) error {
	for seed, dtype := range array.DTypes() {
		for _, dims := range [][2]int{{0, 1}, {1, 0}, {2, 0}, {0, 2}, {1, 2}} {
			sizes := unevenSizes(c.Size(), seed+1)
			shape := []int{2, 3, 2}
			shape[dims[0]] = sum(sizes)
			xs := shards(c, dtype, seed, dims[1], shape...)
			got, err := everyone(c).AllToAll(array.Array{}, xs[c.ID()], dims[0], sizes, dims[1])
			if err != nil {
				return err
			}
			want := exchanged(xs, dims[0], dims[1], c.ID(), func(int) []int { return sizes })
			if err := same(fmt.Sprintf("dims %v", dims), got, want); err != nil {
				return err
			}
		}
	}
	return nil
}

// allToAllOneDim splits and joins along the same dim; every member may then use its own sizes.
func allToAllOneDim(c comm.Comm) error {
	for dim := range 2 {
		sizes := func(m int) []int { return unevenSizes(c.Size(), 10*dim+m) }
		xs := make([]array.Array, c.Size())
		for m := range xs {
			shape := []int{3, 3}
			shape[dim] = sum(sizes(m))
			xs[m] = Input(array.F32, dim, m, shape...)
		}
		got, err := everyone(c).AllToAll(array.Array{}, xs[c.ID()], dim, sizes(c.ID()), dim)
		if err != nil {
			return err
		}
		if err := same("one dim", got, exchanged(xs, dim, dim, c.ID(), sizes)); err != nil {
			return err
		}
	}
	return nil
}

// allToAllV also uses a destination with more rows than needed.
func allToAllV(c comm.Comm) error {
	rows := func(m int) []int { return unevenSizes(c.Size(), 20+m) }
	xs := make([]array.Array, c.Size())
	want := make([]int, c.Size())
	for m := range xs {
		xs[m] = Input(array.BF16, 4, m, sum(rows(m)), 3)
		want[m] = rows(m)[c.ID()]
	}
	for _, dst := range []array.Array{{}, array.New(array.BF16, sum(want)+2, 3)} {
		got, counts, err := everyone(c).AllToAllV(dst, xs[c.ID()], rows(c.ID()))
		if err != nil {
			return err
		}
		if !slices.Equal(counts, want) {
			return fmt.Errorf("all_to_all_v: counts: got %v, want %v", counts, want)
		}
		if err := same("rows", got, exchanged(xs, 0, 0, c.ID(), rows)); err != nil {
			return err
		}
	}
	return nil
}

// largeMoves uses arrays that are split into several pieces of work, with long and short contiguous runs.
func largeMoves(c comm.Comm) error {
	g := everyone(c)
	for dim, shape := range [][]int{{301, 203}, {50_003, 3}} {
		xs := inputs(c, array.F32, 5, shape...)
		got, err := g.AllGather(array.Array{}, xs[c.ID()], dim)
		if err != nil {
			return err
		}
		if err := same("large all_gather", got, joined(dim, xs)); err != nil {
			return err
		}
		sizes := make([]int, c.Size())
		sizes[0] = shape[dim]
		if got, err = g.AllToAll(array.Array{}, xs[c.ID()], dim, sizes, 1-dim); err != nil {
			return err
		}
		want := exchanged(xs, dim, 1-dim, c.ID(), func(int) []int { return sizes })
		if err := same("large all_to_all", got, want); err != nil {
			return err
		}
	}
	return nil
}

func broadcast(c comm.Comm) error {
	for root := range c.Size() {
		for _, dtype := range array.DTypes() {
			want := Input(dtype, 6, root, 3, 4)
			x, dst := array.Array{}, array.New(dtype, 3, 4)
			if c.ID() == root {
				x = want.Clone()
			}
			for _, d := range []array.Array{{}, dst} {
				got, err := everyone(c).Broadcast(d, x, root)
				if err != nil {
					return err
				}
				if err := same("broadcast", got, want); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// permute sends around a ring, reverses the order, and leaves some members without a source.
func permute(c comm.Comm) error {
	n := c.Size()
	var ring, turn []comm.Pair
	for i := range n {
		ring = append(ring, comm.Pair{Source: i, Target: (i + 1) % n})
		turn = append(turn, comm.Pair{Source: i, Target: n - 1 - i})
	}
	for _, pairs := range [][]comm.Pair{ring, turn, ring[:n-1], nil} {
		xs := shards(c, array.F16, 7, 0, 0, 2)
		want := array.New(array.F16, xs[c.ID()].Shape()...)
		for _, p := range pairs {
			if p.Target == c.ID() {
				want = xs[p.Source]
			}
		}
		dirty := Input(array.F16, 8, c.ID(), want.Shape()...)
		for _, dst := range []array.Array{{}, dirty} {
			got, err := everyone(c).Permute(dst, xs[c.ID()], pairs)
			if err != nil {
				return err
			}
			if err := same(fmt.Sprint("pairs ", pairs), got, want); err != nil {
				return err
			}
		}
	}
	return nil
}

func gatherScatter(c comm.Comm) error {
	g := everyone(c)
	for root := range c.Size() {
		for dim := range 2 {
			xs := shards(c, array.I32, 30+root, dim, 3, 2)
			whole, err := g.Gather(array.Array{}, xs[c.ID()], dim, root)
			if err != nil {
				return err
			}
			if c.ID() == root {
				if err := same("gather", whole, joined(dim, xs)); err != nil {
					return err
				}
			} else if whole.IsValid() {
				return fmt.Errorf("gather: result off the root: got %v, want none", whole)
			}
			part, err := g.Scatter(array.Array{}, whole, dim, unevenSizes(c.Size(), 30+root), root)
			if err != nil {
				return err
			}
			if err := same("scatter", part, xs[c.ID()]); err != nil {
				return err
			}
		}
	}
	return nil
}
