package kernel

import (
	"fmt"
	"unsafe"
)

// GemmBatch is Batch products of the same sizes. The matrices of item i begin i strides of
// elements into the slices of the Gemm; a stride of 0 shares the operand between all
// items.
type GemmBatch[T Float] struct {
	Gemm[T]
	Batch                     int
	StrideA, StrideB, StrideC int
	// At, if not nil, returns the offsets of matrices A, B and C of an item, instead of the strides.
	At func(item int) [3]int
}

// Run computes all the products on p, which may be nil. The items must not
// overlap in C.
func (g GemmBatch[T]) Run(p *Pool) { g.runOn(&gemmSets[0], p) }

// runOn is like Run with a given set of kernels.
func (g GemmBatch[T]) runOn(set *gemmSet, p *Pool) {
	if g.M == 0 || g.N == 0 || g.Batch == 0 {
		return
	}
	ks := kernelsOf[T](set)
	pr := g.product(ks.size)
	g.checkItems(pr.ldc)
	if g.merge(&pr) {
		pr.run(ks, p)
		return
	}
	if g.Batch == 1 || p.Threads() == 1 || g.Batch < p.Threads() && pr.parallel(p) {
		for i := range g.Batch {
			item := g.item(pr, i)
			item.run(ks, p)
		}
		return
	}
	g.spread(pr, ks, p)
}

// checkItems panics unless all items are inside the slices.
func (g *GemmBatch[T]) checkItems(ldc int) {
	if g.Batch < 0 {
		panic(fmt.Sprintf("kernel: a batch of %d products", g.Batch))
	}
	first := g.Batch - 1
	if g.At != nil {
		first = 0
	}
	for i := first; i < g.Batch; i++ {
		g.check(ldc, g.at(i))
	}
}

// at returns the offsets of the matrices of an item.
func (g *GemmBatch[T]) at(i int) [3]int {
	if g.At != nil {
		return g.At(i)
	}
	return [3]int{i * g.StrideA, i * g.StrideB, i * g.StrideC}
}

// merge turns the batch into one product if possible: if A and C are contiguous from item to item and B is
// shared.
func (g *GemmBatch[T]) merge(pr *gemmProduct) bool {
	stacked := g.At == nil && g.StrideB == 0 && g.A.trans == NoTrans &&
		g.StrideA == g.M*pr.a.row && g.StrideC == g.M*pr.ldc
	if stacked {
		pr.m *= g.Batch
	}
	return stacked
}

// item returns the i-th product of the batch.
func (g *GemmBatch[T]) item(pr gemmProduct, i int) gemmProduct {
	at := g.at(i)
	pr.a.ptr = unsafe.Add(pr.a.ptr, at[0]*pr.a.size)
	pr.b.ptr = unsafe.Add(pr.b.ptr, at[1]*pr.b.size)
	pr.c = unsafe.Add(pr.c, at[2]*int(unsafe.Sizeof(*new(T))))
	return pr
}

// spread runs the items as tasks. Large items are split into tiles, which idle
// threads join. It is a function of its own so that only this case pays for the
// closure.
func (g GemmBatch[T]) spread(pr gemmProduct, ks *gemmKernels, p *Pool) {
	group := max(1, g.Batch/(8*p.Threads()))
	p.For(g.Batch, group, func(lo, hi int) {
		for i := lo; i < hi; i++ {
			item := g.item(pr, i)
			item.run(ks, p)
		}
	})
}
