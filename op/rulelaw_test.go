package op_test

import (
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/mesh"
	"github.com/galley-ml/galley/op"
)

// The rule law: an op that is split by its rule computes what it computes whole. Operands are cut as the rule
// says, each device runs its own op on its own pieces, pieces of partial results are combined, and every
// device must then hold its part of the whole result: the same bits where no sum or product was split, else
// 1e-12 in f64.

var sweep = flag.Bool("sweep", false,
	"run the rule law on more sizes and look for missing rules on all meshes")

var lawMeshes = []string{"x=2", "x=3", "x=4", "x=2,y=2", "x=2,y=3"}

func TestRuleLaw(t *testing.T) {
	d, meshes, dtypes := device(t, 1), parseMeshes(t, lawMeshes), []array.DType{array.F64, array.F32}
	if testing.Short() {
		meshes, dtypes = parseMeshes(t, []string{"x=2"}), dtypes[:1]
	}
	pairs := 0
	law(t, func(t *testing.T, o op.Op, args []op.Arg) {
		for _, v := range variants(o, args) {
			for _, dtype := range dtypes {
				if dtype == array.F64 && onBits(o) {
					continue
				}
				c, err := newRuleCase(d, o, fillAll(v, dtype, 37), "")
				if err != nil {
					t.Fatal(err)
				}
				for _, m := range meshes {
					n, err := c.checkAll(m)
					if pairs += n; err != nil {
						t.Error(err)
						break
					}
				}
			}
		}
	})
	t.Logf("%d pairs of an op and an assignment", pairs)
}

// TestCooperativeLaw is the rule law for ops that devices compute together: under every assignment that
// splits a joint factor they hold what one device computes.
func TestCooperativeLaw(t *testing.T) {
	d, meshes, dtypes := device(t, 1), parseMeshes(t, lawMeshes), []array.DType{array.F64, array.F32}
	if testing.Short() {
		meshes, dtypes = parseMeshes(t, []string{"x=3"}), dtypes[:1]
	}
	pairs := 0
	law(t, func(t *testing.T, o op.Op, args []op.Arg) {
		for _, v := range cooperativeVariants(o, args) {
			for _, dtype := range dtypes {
				c, err := newCooperativeCase(d, o, fillAll(v, dtype, 37))
				if err != nil {
					t.Fatal(err)
				}
				for _, m := range meshes {
					if c == nil {
						break
					}
					n, err := c.checkAll(m)
					if pairs += n; err != nil {
						t.Error(err)
						break
					}
				}
			}
		}
	})
	t.Logf("%d pairs of an op and an assignment", pairs)
}

// reasonsForWhole is the samples in which a factor may be split by chance.
var reasonsForWhole = map[string]string{
	"concat/2":        "what is joined is empty but for one operand",
	"update_buffer/1": "the result has nothing of the buffer, so no reduction of it is right but one of equal copies",
	"while/1":         "the bound ends it before the condition does, on every device",
	"fused/0":         "programs are fused when they have been split",
	"fused/1":         "programs are fused when they have been split",
}

// TestMissingRules tries to split every factor that a rule keeps whole. One that could be split is freedom
// given away, unless reasonsForWhole has a reason.
func TestMissingRules(t *testing.T) {
	d, meshes := device(t, 1), parseMeshes(t, []string{"x=2", "x=3"})
	for _, o := range op.All() {
		if _, local := o.(op.Collective); local {
			continue // an op of local programs, which are not split again
		}
		for i, s := range samples(o) {
			missing, err := missingFactors(d, s, meshes)
			if err != nil {
				t.Fatal(err)
			}
			rule := s.Op.Rule(argTypes(s.In))
			if reasonsForWhole[fmt.Sprintf("%s/%d", o.Name(), i)] != "" {
				continue
			}
			if missing != "" || rule == mesh.Unknown {
				t.Errorf("%s/%d: rule %q: %s%v may be split along %q", o.Name(), i, rule, ir.FormatOp(s.Op),
					argTypes(s.In), missing)
			}
		}
	}
}

// missingFactors is the factors of a sample that are whole but need not be: those that may be split as they
// are, with a reduction if no result has them, or as the same factor as one that only results have.
func missingFactors(d evaluator, s op.Sample, meshes []*mesh.Mesh) (string, error) {
	types := argTypes(s.In)
	p, _, err := bind(s.Op, types, "")
	if err != nil {
		return "", err
	}
	missing := ""
	for f, factor := range p.Factors {
		if !factor.Whole || factor.Size < 2 {
			continue
		}
		for _, r := range freedRules(p, f, s.Op.Rule(types)) {
			free, err := newRuleCase(d, s.Op, fillAll(s.In, array.F64, 37), r)
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

// freedRules is the rules that a rule might be without the star of a factor.
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

func samples(o op.Op) []op.Sample {
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

// variants is a sample's operands and the same with other sizes: all free factors even on all meshes, and
// each in turn of few elements or none. Sizes that the op does not take are left out.
func variants(o op.Op, args []op.Arg) [][]op.Arg {
	list := [][]op.Arg{args}
	p, _, err := bind(o, argTypes(args), "")
	if err != nil {
		return list
	}
	add := func(sizes map[byte]int) {
		v := resized(p, args, sizes)
		if _, _, err := bind(o, argTypes(v), ""); err == nil {
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
		for _, n := range smallSizes() {
			add(map[byte]int{f.Name: n})
		}
	}
	if len(even) > 0 {
		add(even)
	}
	return list
}

// togetherVariants is a sample's operands, and the same with few elements, and with even parts, along joint
// factors.
func cooperativeVariants(o op.Op, args []op.Arg) [][]op.Arg {
	how := op.CooperativeRuleOf(o, argTypes(args))
	if how.Rule == "" {
		return nil
	}
	list := [][]op.Arg{args}
	p, _, err := bind(o, argTypes(args), how.Rule)
	if err != nil {
		return list
	}
	for _, f := range p.Factors {
		for _, n := range []int{2, 12} {
			v := resized(p, args, map[byte]int{f.Name: n})
			if _, _, err := bind(o, argTypes(v), ""); f.Joint && err == nil {
				list = append(list, v)
			}
		}
	}
	return list
}

func smallSizes() []int {
	if *sweep {
		return []int{0, 1, 2, 8}
	}
	return []int{0, 2}
}

// resized is operands in which some factors have other sizes.
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

func argTypes(args []op.Arg) []op.Type {
	ts := make([]op.Type, len(args))
	for i, a := range args {
		ts[i] = a.Type
	}
	return ts
}

// axisParts is what is given to factors: the axes of a mesh, and for an axis of four its two halves.
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

// assignments is every way to give each part to a free factor or to none, with those of one factor in every
// order.
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

// bind is a rule for an op on operands of these types, the op's own if none is given, and the results' types.
func bind(o op.Op, in []op.Type, r mesh.Rule) (*mesh.Parsed, []op.Type, error) {
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

// TestRuleLawFindsWrongRules: the law is only worth what it refuses.
func TestRuleLawFindsWrongRules(t *testing.T) {
	d, meshes := device(t, 1), parseMeshes(t, []string{"x=2", "x=2,y=2"})
	for _, c := range []struct {
		name  string
		wrong mesh.Rule
		what  string
	}{
		{"softmax", "abc->abc", "sums over the split dim are not combined"},
		{"sum", "abc->bc; a:max", "combined by another reduction"},
		{"matmul", "mk,kn->mn; k:max", "combined by another reduction"},
		{"cumsum", "abc->abc", "a part does not know what precedes it"},
		{"flip", "ab->ab", "parts change places"},
		{"linear", "abK,NK,N->abN; K:max", "combined by another reduction"},
	} {
		o, _ := op.Lookup(c.name)
		s := samples(o.(op.Op))[0]
		r, err := newRuleCase(d, s.Op, fillAll(s.In, array.F64, 37), c.wrong)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range meshes {
			if _, err := r.checkAll(m); err == nil {
				t.Errorf("%s passes on %s with the rule %q: %s", c.name, m, c.wrong, c.what)
			}
		}
	}
}
