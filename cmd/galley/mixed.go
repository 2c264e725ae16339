package main

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/galley-ml/galley"
	"github.com/galley-ml/galley/internal/interpreter"
	"github.com/galley-ml/galley/internal/planfile"
)

// mixedFlags run one training step on several kinds of devices.
type mixedFlags struct {
	RankBackends string `help:"What computes each rank of the pipeline, in order: cpu, xla, or hlo, the interpreter of StableHLO; such as cpu,xla. With --plan also by the kind of the plan's devices: A100-SXM-80GB=xla,V100-SXM2-32GB=cpu." placeholder:"WORDS"`
	Shares       string `help:"Parts of a batch of unequal size, and what computes each: xla=3,cpu=1. Without --mesh. With --plan, plan: a part for each of its devices, by their speed." placeholder:"PARTS"`
}

// byPlan is the value of --shares that takes the parts of the batch from a plan's devices.
const byPlan = "plan"

// validate checks the flags as far as possible before any backend is opened.
func (f mixedFlags) validate(c *trainCmd) error {
	switch {
	case f.RankBackends != "" && f.Shares != "":
		return errors.New("--rank-backends and --shares: a pipeline's ranks, or parts of a batch: want one of them")
	case f.RankBackends == "" && f.Shares == "":
		return nil
	case c.Backend != "cpu":
		return fmt.Errorf("--backend=%s: it runs all of a step: want it, or --rank-backends, or --shares",
			c.Backend)
	case c.Eager:
		return errors.New("--eager: op by op is on one device: want neither --rank-backends nor --shares")
	case job != nil && job.Size() > 1:
		return errors.New("--rank-backends, --shares: they are of one process: want no galley launch")
	case f.Shares == byPlan && c.Plan == "":
		return errors.New("--shares=plan: want --plan FILE, whose devices have the parts")
	case f.Shares != "" && (c.Mesh != "" || c.Devices > 0):
		return errors.New("--shares: parts of a batch are of whole replicas: want neither --mesh nor --devices")
	case f.Shares != "" && f.Shares != byPlan && c.Plan != "":
		return fmt.Errorf("--plan=%s and --shares=%s: want --shares plan, or one of them", c.Plan, f.Shares)
	case c.DryRun:
		return errors.New("--dry-run: it is for devices of this process: want neither --rank-backends nor --shares")
	case f.RankBackends != "" && c.Mesh == "" && c.Plan == "":
		return fmt.Errorf("--rank-backends=%s: want a pipeline: --mesh pp=2, or --plan FILE", f.RankBackends)
	case c.Adapt == "on":
		return errors.New("--adapt=on: another plan has other ranks: want neither --rank-backends nor --shares")
	}
	return nil
}

// opened holds the backends that a run has opened, each once.
type opened struct {
	plugin pluginFlags
	byWord map[string]galley.Backend
}

// open returns the backend that a word names; nil is the host's CPU.
func (o *opened) open(word string) (galley.Backend, error) {
	if b, ok := o.byWord[word]; ok {
		return b, nil
	}
	var b galley.Backend
	var err error
	switch word {
	case "cpu":
	case "hlo":
		b = interpreter.New(1)
	case "xla":
		b, err = o.plugin.open()
	default:
		return nil, fmt.Errorf("%q: want cpu, xla or hlo", word)
	}
	if err != nil {
		return nil, err
	}
	if o.byWord == nil {
		o.byWord = map[string]galley.Backend{}
	}
	o.byWord[word] = b
	return b, nil
}

// Close closes all backends.
func (o *opened) Close() (err error) {
	for _, b := range o.byWord {
		err = closed(b, err)
	}
	return err
}

// mixed returns the backend of each rank, by --rank-backends, or the shares of the batch, by --shares.
func (t *training) mixed(s *galley.Strategy) (ranks []galley.Backend, shares []galley.Share, err error) {
	t.opened.plugin = t.pluginFlags
	switch {
	case t.RankBackends != "":
		if ranks, err = t.rankBackends(max(1, s.PP)); err != nil {
			return nil, nil, fmt.Errorf("--rank-backends=%s: %w", t.RankBackends, err)
		}
	case t.mixedFlags.Shares == byPlan:
		shares, err = t.plannedShares(s)
	case t.mixedFlags.Shares != "":
		shares, err = t.sharesOf(strings.Split(t.mixedFlags.Shares, ","))
	}
	if len(shares) > 0 && t.watch != nil {
		err = errors.New("a trace shows tapes, which --shares does not have: want --mesh")
	}
	if err != nil && t.mixedFlags.Shares != "" {
		err = fmt.Errorf("--shares=%s: %w", t.mixedFlags.Shares, err)
	}
	return ranks, shares, err
}

// rankBackends returns the backend of each rank of a pipeline of pp ranks.
func (t *training) rankBackends(pp int) ([]galley.Backend, error) {
	words := strings.Split(t.RankBackends, ",")
	if strings.Contains(t.RankBackends, "=") {
		if t.Plan == "" {
			return nil, errors.New("kinds of devices are those of a plan: want --plan FILE, or a word for each rank")
		}
		var err error
		if words, err = t.wordsByKind(words); err != nil {
			return nil, err
		}
	}
	if len(words) != pp {
		return nil, fmt.Errorf("%d words: the pipeline has %d ranks", len(words), pp)
	}
	list := make([]galley.Backend, pp)
	for i, w := range words {
		var err error
		if list[i], err = t.opened.open(w); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// wordsByKind returns the backend's word for each rank of a plan, by the kind of its devices.
func (t *training) wordsByKind(pairs []string) ([]string, error) {
	f, err := planfile.Load(t.Plan)
	if err != nil {
		return nil, err
	}
	kinds, err := f.Kinds()
	if err != nil {
		return nil, err
	}
	words := map[string]string{}
	for _, p := range pairs {
		kind, word, ok := strings.Cut(p, "=")
		if !ok || !slices.ContainsFunc(kinds, func(k []string) bool { return slices.Contains(k, kind) }) {
			return nil, fmt.Errorf("%s: want KIND=WORD of the plan's devices: %s", p, kindsText(kinds))
		}
		words[kind] = word
	}
	list := make([]string, len(kinds))
	for r, of := range kinds {
		for _, kind := range of {
			word, ok := words[kind]
			switch {
			case !ok:
				return nil, fmt.Errorf("rank %d has devices %s: want a word for them", r, kind)
			case list[r] != "" && list[r] != word:
				return nil, fmt.Errorf("rank %d has devices of %s: one backend computes a rank: want one word for all",
					r, strings.Join(of, " and "))
			}
			list[r] = word
		}
	}
	return list, nil
}

// kindsText returns the kinds of devices by rank, as text.
func kindsText(kinds [][]string) string {
	var list []string
	for r, k := range kinds {
		list = append(list, fmt.Sprintf("rank %d %s", r, strings.Join(k, " and ")))
	}
	return strings.Join(list, ", ")
}

// sharesOf parses backend words with weights.
func (t *training) sharesOf(parts []string) (list []galley.Share, err error) {
	for _, p := range parts {
		word, number, ok := strings.Cut(p, "=")
		weight, err := strconv.ParseFloat(number, 64)
		if !ok || err != nil || !(weight > 0 && weight < 1e9) {
			return nil, fmt.Errorf("%s: want WORD=WEIGHT, such as xla=3", p)
		}
		b, err := t.opened.open(word)
		if err != nil {
			return nil, err
		}
		list = append(list, galley.Share{Backend: b, Weight: weight})
	}
	return list, nil
}

// plannedShares returns a share of the batch for each device of a data-parallel plan, by its speed.
func (t *training) plannedShares(s *galley.Strategy) ([]galley.Share, error) {
	alone := *s
	alone.AMP = "off"
	if plain := (galley.Strategy{DP: s.DP, Micro: 1}); alone.String() != plain.String() {
		return nil, fmt.Errorf("the plan is %s: parts of a batch are of whole replicas that do nothing else: "+
			"plan with --pin 'tp=1 pp=1 cp=1 zero=0 recompute=none', a micro-batch a device", s)
	}
	if s.AMP != "off" {
		return nil, fmt.Errorf("the plan computes in %s: parts of a batch compute in the parameters' f32: "+
			"plan with --precision fp32", s.AMP)
	}
	f, err := planfile.Load(t.Plan)
	if err != nil {
		return nil, err
	}
	speeds, err := f.Speeds()
	if err != nil {
		return nil, err
	}
	sum := 0.0
	for _, x := range speeds {
		sum += x
	}
	var list []galley.Share
	var parts []string
	for _, x := range speeds {
		list = append(list, galley.Share{Weight: x})
		parts = append(parts, fmt.Sprintf("%.0f%%", 100*x/sum))
	}
	fmt.Printf("parts of a batch by the speed of the plan's devices: %s\n", strings.Join(parts, ", "))
	return list, nil
}

// printKinds prints, for a plan for several kinds of devices, that the host computes for all of them.
func (t *training) printKinds() error {
	if t.Plan == "" || t.RankBackends != "" || t.mixedFlags.Shares != "" {
		return nil
	}
	f, err := planfile.Load(t.Plan)
	if err != nil {
		return err
	}
	kinds, err := f.Kinds()
	if err != nil {
		return err
	}
	if all := slices.Concat(kinds...); slices.ContainsFunc(all, func(k string) bool { return k != all[0] }) {
		fmt.Printf("the plan is for %s: the host computes for all of them: --rank-backends KIND=WORD,… says "+
			"what else does\n", kindsText(kinds))
	}
	return nil
}
