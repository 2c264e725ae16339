// Package mesh is the algebra of named device axes and of the layouts of tensors and ops on them. It computes
// only; it moves no data.
//
// Its one idea is that axes split things in order. A Mesh is a grid of devices with named axes. A Spec lists,
// for each dim of a tensor, the axes that split it, the major one first, and the axes along which the tensor
// is unreduced; Placements are the same in PyTorch's form. A Rule describes an op: it names, for each dim of
// each operand and result, the factors that the dim consists of. Dims that share a factor are split together;
// a factor that no result has is reduced. An Assignment of axes to its factors determines how an op is split,
// and everything else follows.
//
//	m, _ := mesh.Parse("dp=2,tp=4")
//	p, _ := mesh.Rule("mk,kn->mn").Bind([][]int{{8, 6}, {6, 4}}, [][]int{{8, 4}})
//	x, _ := mesh.ParseSpec("@[dp,tp]")
//	w, _ := mesh.ParseSpec("@[tp,_]")
//	px, _ := p.Project(m, 0, x)
//	pw, _ := p.Project(m, 1, w)
//	a, _ := p.Resolve(m, []mesh.Projection{px, pw}) // m=dp k=tp
//	_, out, _ := p.Specs(m, a)                      // @[dp,_]+{tp}
//
// Files, bottom up: mesh, grid and axes are the grid and its parts; placement, spec and sharding describe the
// layout of a tensor; layout, box and intersect determine which device holds what; rule, bind, project,
// conflict and local do the same for ops; scan parses all their texts.
package mesh
