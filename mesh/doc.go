// Package mesh is the algebra of named device axes and of the layout of tensors and ops on them. It computes;
// it moves nothing.
//
// Its one idea is that axes split things in order. A Mesh is a grid of devices with named axes. A Spec says,
// for each dim of a tensor, the axes that split it, the major one first, and along which axes values are yet
// to be combined; Placements are the same as users write it. A Rule says the same kind of thing of an op: it
// names, for each dim of each operand and result, the factors that the dim is made of. Dims that share a
// factor are split together; a factor that no result has is reduced. What splits an op is an Assignment of
// axes to its factors, and everything else follows.
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
// Files, from the ground up: mesh, grid and axes are the grid and its parts; placement, spec and sharding say
// the layout of a tensor; layout, box and intersect say which device holds what; rule, bind, project,
// conflict and local are the same for ops; scan reads all their texts.
package mesh
