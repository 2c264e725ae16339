package kernel

import "unsafe"

// GemmBatch is Batch products of the same sizes. Item i takes its matrices i
// strides of elements into the slices of the Gemm; a stride of 0 shares the
// operand between all items.
type GemmBatch[T Float] struct {
	Gemm[T]
	Batch                     int
	StrideA, StrideB, StrideC int
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
	g.check(pr.ldc, g.Batch, [3]int{g.StrideA, g.StrideB, g.StrideC})
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

// merge makes one product of the batch where that is possible: A and C that
// continue from item to item, and one B for all.
func (g *GemmBatch[T]) merge(pr *gemmProduct) bool {
	stacked := g.StrideB == 0 && g.A.trans == NoTrans &&
		g.StrideA == g.M*pr.a.row && g.StrideC == g.M*pr.ldc
	if stacked {
		pr.m *= g.Batch
	}
	return stacked
}

// item returns the i-th product of the batch.
func (g *GemmBatch[T]) item(pr gemmProduct, i int) gemmProduct {
	pr.a.ptr = unsafe.Add(pr.a.ptr, i*g.StrideA*pr.a.size)
	pr.b.ptr = unsafe.Add(pr.b.ptr, i*g.StrideB*pr.b.size)
	pr.c = unsafe.Add(pr.c, i*g.StrideC*int(unsafe.Sizeof(*new(T))))
	return pr
}

// spread runs the items as tasks. Large ones are tasks of tiles in turn, which
// the threads that find no further item join. It is a function of its own so
// that only this case pays for the closure.
func (g GemmBatch[T]) spread(pr gemmProduct, ks *gemmKernels, p *Pool) {
	group := max(1, g.Batch/(8*p.Threads()))
	p.For(g.Batch, group, func(lo, hi int) {
		for i := lo; i < hi; i++ {
			item := g.item(pr, i)
			item.run(ks, p)
		}
	})
}
