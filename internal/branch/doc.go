// Package branch finds branches of a program, parts that do not depend on each other, and puts them on two
// devices where that pays: the MSA and the pair branch of an Evoformer, attention and the MLP of a parallel
// block, and what their gradients compute.
//
// Its one idea: a training step is a graph of nodes with prices, so branches need no names: a list schedule
// by the length of what is still to come [Topcuoglu et al. 2002], made better by moving nodes as long as the
// predicted time falls, and the order in which devices take their nodes is that of the schedule. A parameter
// is where its next value is made, so that its gradient is summed and used on one device, once.
//
//	p := branch.Find(f, branch.Config{Prices: prices, Next: next})
//	if p.Pays() {
//		f, err = p.Apply(f, [2]*mesh.Mesh{first, second}) // with reshards where values change devices
//	}
package branch
