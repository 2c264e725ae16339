package optest

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/mesh"
	"github.com/galley-ml/galley/op"
)

// Grid is what the rule law tries: meshes, dtypes, and sizes that single factors get in turn.
type Grid struct {
	Meshes []string
	DTypes []array.DType
	Sizes  []int
}

// Rule checks an op's sharding rule: split by it, the op computes what it computes whole. Operands are cut as
// the rule says, each device runs its own op on its own pieces, pieces of partial results are combined, and
// every device must then hold its part of the whole result: the same bits where no sum or product was split,
// else 1e-12 in f64. It counts the assignments of axes to factors that it tried.
func Rule(t *testing.T, o op.Op, args []op.Arg, g Grid) int {
	t.Helper()
	d, meshes, pairs := Device(t, 1), parseMeshes(t, g.Meshes), 0
	for _, v := range variants(o, args, g.Sizes) {
		for _, dtype := range g.DTypes {
			if dtype == array.F64 && onBits(o) {
				continue
			}
			c, err := newRuleCase(d, o, Fill(v, dtype, 37), "")
			if err != nil {
				t.Fatal(err)
			}
			pairs += c.checkMeshes(t, meshes)
		}
	}
	return pairs
}

// Cooperative returns the rule law for ops that devices compute together: under every assignment that splits
// a joint factor they hold what one device computes.
func Cooperative(t *testing.T, o op.Op, args []op.Arg, g Grid) int {
	t.Helper()
	d, meshes, pairs := Device(t, 1), parseMeshes(t, g.Meshes), 0
	for _, v := range cooperativeVariants(o, args) {
		for _, dtype := range g.DTypes {
			c, err := newCooperativeCase(d, o, Fill(v, dtype, 37))
			if err != nil {
				t.Fatal(err)
			}
			if c != nil {
				pairs += c.checkMeshes(t, meshes)
			}
		}
	}
	return pairs
}

// WrongRule returns what the rule law says of an op under another rule than its own; nil is that it holds.
func WrongRule(t *testing.T, o op.Op, args []op.Arg, wrong mesh.Rule, meshes ...string) error {
	t.Helper()
	c, err := newRuleCase(Device(t, 1), o, Fill(args, array.F64, 37), wrong)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range parseMeshes(t, meshes) {
		if _, err := c.checkAll(m); err == nil {
			return nil
		}
	}
	return fmt.Errorf("%s: the rule %q does not hold", o.Name(), wrong)
}

// MissingFactors returns the factors of a sample that its rule keeps whole, though the op could be split
// along them on two or three devices: freedom given away.
func MissingFactors(t *testing.T, s op.Sample) string {
	t.Helper()
	missing, err := missingFactors(Device(t, 1), s, parseMeshes(t, []string{"x=2", "x=3"}))
	if err != nil {
		t.Fatal(err)
	}
	return missing
}

// missingFactors returns the factors of a sample that are whole but need not be: those that may be split as
// they are, with a reduction if no result has them, or as the same factor as one that only results have.
func missingFactors(d evaluator, s op.Sample, meshes []*mesh.Mesh) (string, error) {
	types := argTypes(s.In)
	p, _, err := Bind(s.Op, types, "")
	if err != nil {
		return "", err
	}
	missing := ""
	for f, factor := range p.Factors {
		if !factor.Whole || factor.Size < 2 {
			continue
		}
		for _, r := range freedRules(p, f, s.Op.Rule(types)) {
			free, err := newRuleCase(d, s.Op, Fill(s.In, array.F64, 37), r)
			if err != nil {
				continue // no rule at all
			}
			if n, err := free.checkFactor(meshes, factor.Name); n > 0 && err == nil {
				missing += string(factor.Name)
				break
			}
		}
	}
	return missing, nil
}

// freedRules returns the rules that a rule might be without the star of a factor.
func freedRules(p *mesh.Parsed, f int, r mesh.Rule) []mesh.Rule {
	name := string(p.Factors[f].Name)
	free := strings.ReplaceAll(string(r), name+"*", name)
	rules := []mesh.Rule{mesh.Rule(free)}
	if !p.Reduced(f) {
		return rules
	}
	for _, kind := range []mesh.Reduce{mesh.Max, mesh.Min, mesh.Prod} {
		notes := " "
		if !strings.Contains(free, ";") {
			notes = "; "
		}
		rules = append(rules, mesh.Rule(free+notes+name+":"+kind.String()))
	}
	for g, other := range p.Factors {
		if other.Whole && other.Size == p.Factors[f].Size &&
			!slices.ContainsFunc(p.In, func(d mesh.Dims) bool { return hasFactor(d, p.Factors[g].Name) }) {
			rules = append(rules, mesh.Rule(strings.ReplaceAll(free, string(other.Name)+"*", name)))
		}
	}
	return rules
}

func hasFactor(dims mesh.Dims, name byte) bool {
	return slices.ContainsFunc(dims, func(factors []byte) bool { return slices.Contains(factors, name) })
}

// Samples returns an op's samples, each with its op.
func Samples(o op.Op) []op.Sample {
	list := slices.Clone(o.Samples())
	for i := range list {
		if list[i].Op == nil {
			list[i].Op = o
		}
	}
	return list
}

func parseMeshes(t *testing.T, texts []string) []*mesh.Mesh {
	t.Helper()
	var ms []*mesh.Mesh
	for _, text := range texts {
		m, err := mesh.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		ms = append(ms, m)
	}
	return ms
}

// variants returns a sample's operands and the same with other sizes: all free factors even on all meshes,
// and each in turn of few elements or none. Sizes that the op does not take are left out.
func variants(o op.Op, args []op.Arg, small []int) [][]op.Arg {
	list := [][]op.Arg{args}
	p, _, err := Bind(o, argTypes(args), "")
	if err != nil {
		return list
	}
	add := func(sizes map[byte]int) {
		v := resized(p, args, sizes)
		if _, _, err := Bind(o, argTypes(v), ""); err == nil {
			list = append(list, v)
		}
	}
	even := map[byte]int{}
	for _, f := range p.Factors {
		if f.Whole {
			continue
		}
		even[f.Name] = 12
		if len(p.Factors) > 4 {
			even[f.Name] = 6
		}
		for _, n := range small {
			add(map[byte]int{f.Name: n})
		}
	}
	if len(even) > 0 {
		add(even)
	}
	return list
}

// cooperativeVariants returns a sample's operands, and the same with few elements, and with even parts, along
// joint factors.
func cooperativeVariants(o op.Op, args []op.Arg) [][]op.Arg {
	how := op.CooperativeRuleOf(o, argTypes(args))
	if how.Rule == "" {
		return nil
	}
	list := [][]op.Arg{args}
	p, _, err := Bind(o, argTypes(args), how.Rule)
	if err != nil {
		return list
	}
	for _, f := range p.Factors {
		for _, n := range []int{2, 12} {
			v := resized(p, args, map[byte]int{f.Name: n})
			if _, _, err := Bind(o, argTypes(v), ""); f.Joint && err == nil {
				list = append(list, v)
			}
		}
	}
	return list
}

// resized returns operands in which some factors have other sizes.
func resized(p *mesh.Parsed, args []op.Arg, sizes map[byte]int) []op.Arg {
	out := slices.Clone(args)
	for i := range out {
		shape := out[i].Type.Shape.Clone()
		for d, factors := range p.In[i] {
			if len(factors) == 0 {
				continue
			}
			shape[d] = 1
			for _, name := range factors {
				n, ok := sizes[name]
				if !ok {
					n = p.Factors[p.Index(name)].Size
				}
				shape[d] *= n
			}
		}
		out[i].Type.Shape = shape
	}
	return out
}

// axisParts returns what is given to factors: the axes of a mesh, and for an axis of four its two halves.
func axisParts(m *mesh.Mesh) []mesh.Axes {
	var whole mesh.Axes
	for _, axis := range m.Axes() {
		whole = append(whole, mesh.On(axis.Name)...)
	}
	list := []mesh.Axes{whole}
	if major, minor, ok := m.Cut(whole[0], 2); ok && len(whole) == 1 {
		list = append(list, mesh.Axes{major, minor})
	}
	return list
}

// assignments returns every way to give each part to a free factor or to none, with those of one factor in
// every order.
func assignments(p *mesh.Parsed, m *mesh.Mesh, parts mesh.Axes) []mesh.Assignment {
	list := []mesh.Assignment{make(mesh.Assignment, len(p.Factors))}
	for _, part := range parts {
		for _, a := range slices.Clone(list) {
			for f := range p.Factors {
				for at := range len(a[f]) + 1 {
					b := a.Clone()
					b[f] = slices.Insert(b[f], at, part)
					list = append(list, b)
				}
			}
		}
	}
	return slices.DeleteFunc(list, func(a mesh.Assignment) bool { return len(p.Check(m, a)) > 0 })
}

// Bind returns a rule for an op on operands of these types, the op's own if none is given, and the results'
// types.
func Bind(o op.Op, in []op.Type, r mesh.Rule) (*mesh.Parsed, []op.Type, error) {
	out, err := o.Infer(in)
	if err != nil {
		return nil, nil, err
	}
	if r == "" {
		r = o.Rule(in)
	}
	p, err := r.Bind(shapes(in), shapes(out))
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", o.Name(), err)
	}
	return p, out, nil
}
