package mesh

import "testing"

// Questions that inference and partition ask of every value, on a mesh of 4,096 devices.
func BenchmarkResolve(b *testing.B) {
	m := must(Parse("pp=4,dp=16,cp=8,tp=8"))
	x, w := must(ParseSpec("@[dp,cp,tp]")), must(ParseSpec("@[tp,_]"))
	for b.Loop() {
		p := must(Rule("bmk,kn->bmn").Bind([][]int{{64, 4096, 4096}, {4096, 1024}}, [][]int{{64, 4096, 1024}}))
		a, _ := p.Resolve(m, []Projection{must(p.Project(m, 0, x)), must(p.Project(m, 1, w))})
		if _, _, err := p.Specs(m, a); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkLayout(b *testing.B) {
	m := must(Parse("pp=4,dp=16,cp=8,tp=8"))
	s := must(ParseSpec("@[dp,cp,tp]"))
	for b.Loop() {
		must(s.Layout(m, []int{64, 4096, 4096})).MaxShape()
	}
}

func BenchmarkIntersect(b *testing.B) {
	m := must(Parse("pp=4,dp=16,cp=8,tp=8"))
	from := must(must(ParseSpec("@[dp,cp,tp]")).Layout(m, []int{64, 4096, 4096}))
	to := must(must(ParseSpec("@[_,dp.cp,tp]")).Layout(m, []int{64, 4096, 4096}))
	for b.Loop() {
		must(Intersect(from, to))
	}
}
