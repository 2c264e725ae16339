// Package mesh is the algebra of named device axes and of how tensors and ops lie on them.
//
// Its one idea is the factor: a Rule names, for each dim of each operand and result of an op, the factors that
// the dim is made of. Dims that share a factor are split together; a factor that no result has is reduced.
//
//	r, _ := mesh.ParseRule("mk,kn->mn")   // k is in no result: splitting it leaves partial sums
package mesh
