package sharding

import (
	"encoding/json"
	"fmt"
	"slices"
	"sort"
	"strings"

	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/shard"
	"github.com/galley-ml/galley/op"
)

// shardyRuleCase is a rule that an operation should have.
type shardyRuleCase struct {
	ID        string         `json:"id"`
	Options   string         `json:"options"`
	Op        string         `json:"op"`
	Target    string         `json:"call_target"`
	Operands  []shardyTensor `json:"operands"`
	Results   []shardyTensor `json:"results"`
	Attrs     shardyAttrs    `json:"attrs"`
	Producers []struct {
		Op string `json:"op"`
	} `json:"producers"`
	Rule *shardyRule `json:"rule"`
}

func checkOpRule(text json.RawMessage) shardyVerdict {
	var c shardyRuleCase
	if err := json.Unmarshal(text, &c); err != nil {
		return shardyVerdict{differs: err.Error()}
	}
	v := shardyVerdict{id: c.ID}
	if c.Attrs.Rule != nil {
		v.differs = compareRules(c.Attrs.Rule.facts(), c.Rule.facts())
		return v
	}
	got, err := c.ours()
	if err != nil {
		v.apart = err.Error()
		return v
	}
	want := c.Rule.facts()
	v.differs = compareRules(got, want)
	v.apart = c.better(got, want, v.differs)
	return v
}

// ours returns the facts of the rule of Galley's counterpart.
func (c shardyRuleCase) ours() ([]ruleFact, error) {
	results := c.Results
	// the type of a condition is listed among the results
	if c.Rule != nil && len(c.Rule.Results) < len(results) {
		results = results[len(results)-len(c.Rule.Results):]
	}
	in, err := shardyTypes(c.Operands)
	if err != nil {
		return nil, err
	}
	out, err := shardyTypes(results)
	if err != nil {
		return nil, err
	}
	reach := shard.Wide
	if strings.Contains(c.Options, "conservative") {
		reach = shard.Narrow
	}
	o := shardyOp{Op: c.Op, Target: c.Target, Results: results, Attrs: c.Attrs}
	s, t, err := o.spread(in, out, reach)
	if err != nil {
		return nil, err
	}
	return spreadFacts(s, t, len(in)), nil
}

func shardyTypes(ts []shardyTensor) ([]ir.Type, error) {
	list := make([]ir.Type, len(ts))
	for i, t := range ts {
		var err error
		if list[i], err = t.typ(); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// spread returns the rule of the counterpart of an operation.
func (o shardyOp) spread(in, out []ir.Type, r shard.Reach) (*shard.Spread, *translation, error) {
	t, err := o.translate(in, out)
	if err != nil {
		return nil, nil, err
	}
	b := ir.NewBuilder("op")
	var params []*op.Tensor
	for _, i := range t.data {
		params = append(params, b.Param("", in[i]))
	}
	f, err := b.Build(t.build(params)...)
	if err != nil {
		return nil, nil, absent("%s: %v", strings.TrimPrefix(o.Op, "stablehlo."), err)
	}
	for i, v := range f.Results() {
		if i < len(out) && !slices.Equal(v.Shape(), out[i].Shape) {
			return nil, nil, absent("%s: result is %v, not %v", o.Op, v.Shape(), out[i].Shape)
		}
	}
	s, err := shard.Compose(f, r)
	if err != nil {
		return nil, nil, err
	}
	for i := range t.carried {
		t.data = append(t.data, i+1)
		s.Dims = slices.Insert(s.Dims, s.Operands, s.Dims[0])
		s.Operands++
		s.Dims = append(s.Dims, s.Dims[len(s.Dims)-1])
	}
	return s, t, nil
}

// ruleFact is a rule's statement about one factor: which dims share it, and whether splitting it needs a
// reduction or more.
type ruleFact struct {
	places string
	size   int
	kind   shard.Kind
}

// facts omits factors without effect: those of size one, those of only one tensor unless they are reduced,
// those along which nothing propagates, and those in a compound dim that are unreachable because of one above
// them.
func (r *shardyRule) facts() []ruleFact {
	if r == nil {
		return nil
	}
	f := newFactFinder()
	for t, dims := range slices.Concat(r.Operands, r.Results) {
		for d, names := range dims {
			for i, name := range names {
				kind := shard.Pass
				switch {
				case slices.Contains(r.Reduction, name):
					kind = shard.Reduction
				case slices.Contains(r.Permutation, name):
					kind = shard.Move
				case slices.Contains(r.Replication, name):
					kind = shard.Whole
				}
				f.see(name, t, d, i, len(r.Operands), r.Sizes[name], kind)
				if slices.Contains(r.Blocked, name) {
					f.drop(name)
				}
			}
		}
	}
	return f.list()
}

// spreadFacts returns the facts of one of our rules; data selects the operation's operands that it covers.
func spreadFacts(s *shard.Spread, tr *translation, operands int) []ruleFact {
	f := newFactFinder()
	for t, dims := range s.Dims {
		place := t - s.Operands + operands
		if t < s.Operands {
			place = tr.data[t]
		}
		for d, factors := range dims {
			for i, x := range factors {
				f.see(fmt.Sprint(x), place, d, i, operands, s.Factors[x].Size, s.Factors[x].Kind)
			}
		}
	}
	return f.list()
}

type factFinder struct {
	byName map[string]*factPlaces
	above  map[string][]string // by dim, the factors major first
}

type factPlaces struct {
	in, out map[int]bool
	places  []string
	dims    []string
	size    int
	kind    shard.Kind
	dropped bool
}

func newFactFinder() *factFinder {
	return &factFinder{byName: map[string]*factPlaces{}, above: map[string][]string{}}
}

func (f *factFinder) see(name string, t, d, i, operands, size int, kind shard.Kind) {
	p := f.byName[name]
	if p == nil {
		p = &factPlaces{in: map[int]bool{}, out: map[int]bool{}, size: size, kind: kind}
		f.byName[name] = p
	}
	if t < operands {
		p.in[t] = true
	} else {
		p.out[t] = true
	}
	dim := fmt.Sprintf("%d.%d", t, d)
	p.places, p.dims = append(p.places, fmt.Sprintf("%s.%d", dim, i)), append(p.dims, dim)
	f.above[dim] = append(f.above[dim], name)
}

func (f *factFinder) drop(name string) { f.byName[name].dropped = true }

// idle reports whether a factor has no effect by itself.
func (p *factPlaces) idle() bool {
	alone := len(p.in)+len(p.out) < 2 || p.kind == shard.Whole && (len(p.in) == 0 || len(p.out) == 0)
	return p.dropped || p.size == 1 || p.kind != shard.Reduction && alone
}

func (f *factFinder) list() []ruleFact {
	var facts []ruleFact
	for f.dropBlocked() {
	}
	for _, p := range f.byName {
		if p.idle() {
			continue
		}
		sort.Strings(p.places)
		facts = append(facts, ruleFact{strings.Join(p.places, " "), p.size, p.kind})
	}
	slices.SortFunc(facts, func(a, b ruleFact) int { return strings.Compare(a.places, b.places) })
	return facts
}

// dropBlocked drops factors that are blocked, and reports whether there were any.
func (f *factFinder) dropBlocked() bool {
	changed := false
	for name, p := range f.byName {
		if !p.idle() && f.blocked(name, p) {
			p.dropped, changed = true, true
		}
	}
	return changed
}

// blocked reports whether a factor above this one in some dim is never split, so that this one is not either.
func (f *factFinder) blocked(name string, p *factPlaces) bool {
	for _, dim := range p.dims {
		for _, other := range f.above[dim] {
			if other == name {
				break
			}
			if o := f.byName[other]; o.idle() && o.size != 1 {
				return true
			}
		}
	}
	return false
}

func (r ruleFact) String() string {
	return fmt.Sprintf("%s=%d(%s)", r.places, r.size,
		[...]string{"pass", "reduction", "permutation", "whole"}[r.kind])
}

func compareRules(got, want []ruleFact) string {
	if slices.Equal(got, want) {
		return ""
	}
	return fmt.Sprintf("factors %v, want %v", got, want)
}

// better explains why a difference is acceptable: our rule is of one op alone, while Shardy's considers the
// ops around it.
func (c shardyRuleCase) better(got, want []ruleFact, differs string) string {
	if differs == "" || len(got) != len(want) {
		return ""
	}
	for i := range got {
		if got[i].places != want[i].places || got[i].size != want[i].size {
			return ""
		}
		sliced := len(c.Producers) > 0 && got[i].kind == shard.Whole && want[i].kind == shard.Move
		if got[i].kind != want[i].kind && !sliced {
			return ""
		}
	}
	return "same factors, and Shardy's kind depends on the ops around"
}
