package mesh_test

import (
	"fmt"

	"github.com/galley-ml/galley/mesh"
)

// How a product of two split matrices is: the axis that splits the reduced factor k leaves partial sums.
func Example() {
	m, _ := mesh.Parse("dp=2,tp=4")
	p, _ := mesh.Rule("mk,kn->mn").Bind([][]int{{8, 6}, {6, 4}}, [][]int{{8, 4}})
	x, _ := mesh.ParseSpec("@[dp,tp]")
	w, _ := mesh.ParseSpec("@[tp,_]")
	px, _ := p.Project(m, 0, x)
	pw, _ := p.Project(m, 1, w)
	a, conflicts := p.Resolve(m, []mesh.Projection{px, pw})
	_, out, _ := p.Specs(m, a)
	fmt.Println(p.Text(a), conflicts, out[0])
	// Output: m=dp k=tp [] @[dp,_]+{tp}
}

func ExampleMesh_Groups() {
	m, _ := mesh.Parse("dp=2,tp=2@[0,1,4,5]")
	dp, _ := m.Groups("dp")
	tp, _ := m.Groups("tp")
	fmt.Println(dp, tp)
	// Output: [[0 4] [1 5]] [[0 1] [4 5]]
}

func ExampleMesh_Slice() {
	m, _ := mesh.Parse("pp=2,dp=2,tp=2")
	stage, _ := m.Slice("pp", 1)
	fmt.Println(stage)
	// Output: dp=2,tp=2@[4,5,6,7]
}

func ExamplePlacements_Spec() {
	m, _ := mesh.Parse("dp=2,tp=2")
	spec, _ := mesh.Placements{mesh.Shard(0), mesh.Partial(mesh.Sum)}.Spec(m, 2)
	fmt.Println(spec)
	_, err := mesh.Placements{mesh.Replicate(), mesh.Shard(2)}.Spec(m, 2)
	fmt.Println(err)
	// Output:
	// @[dp,_]+{tp}
	// placements [R, S(2)]: axis tp splits dim 2: the tensor has 2 dims
}

// Five rows over four devices: chunks of two until the rows run out.
func ExampleSpec_Layout() {
	m, _ := mesh.Parse("x=4")
	spec, _ := mesh.ParseSpec("@[x,_]")
	l, _ := spec.Layout(m, []int{5, 8})
	for device, box := range l.Boxes() {
		fmt.Println(device, box)
	}
	// Output:
	// 0 [0:2,0:8]
	// 1 [2:4,0:8]
	// 2 [4:5,0:8]
	// 3 [5:5,0:8]
}

// From one pipeline stage to the next: rows on two devices become columns on two others.
func ExampleIntersect() {
	first, _ := mesh.Parse("tp=2")
	second, _ := mesh.Parse("tp=2@[2,3]")
	from, _ := mesh.Split(mesh.On("tp"), nil).Layout(first, []int{4, 4})
	to, _ := mesh.Split(nil, mesh.On("tp")).Layout(second, []int{4, 4})
	transfers, _ := mesh.Intersect(from, to)
	for _, t := range transfers {
		fmt.Println(t)
	}
	// Output:
	// 0>2 [0:2,0:2]
	// 1>2 [2:4,0:2]
	// 0>3 [0:2,2:4]
	// 1>3 [2:4,2:4]
}

// A reshape cuts one axis into parts: half of the heads' split goes to each factor.
func ExampleParsed_Project() {
	m, _ := mesh.Parse("tp=4")
	p, _ := mesh.Rule("(hd)->hd").Bind([][]int{{16}}, [][]int{{2, 8}})
	x, _ := mesh.ParseSpec("@[tp]")
	pr, _ := p.Project(m, 0, x)
	a, _ := p.Resolve(m, []mesh.Projection{pr})
	_, out, _ := p.Specs(m, a)
	fmt.Println(out[0])
	// Output: @[tp:(1)2,tp:(2)2]
}

func ExampleParseSharding() {
	s, _ := mesh.ParseSharding("@[dp?,_!1,?]-{tp}")
	fmt.Println(s.Freedom, s.Replicated)
	// Output: [{true 0} {false 1} {true 0}] tp
}
