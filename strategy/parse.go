package strategy

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// axes has the degrees of parallelism in the order in which they are written.
var axes = []string{"dp", "tp", "pp", "cp", "ep"}

// number returns the integer field for a key, or nil.
func (s *Strategy) number(key string) *int {
	switch key {
	case "dp":
		return &s.DP
	case "tp":
		return &s.TP
	case "pp":
		return &s.PP
	case "cp":
		return &s.CP
	case "ep":
		return &s.EP
	case "etp":
		return &s.ETP
	case "branches":
		return &s.Branches
	case "vpp":
		return &s.VPP
	case "micro":
		return &s.Micro
	case "micro_batch":
		return &s.MicroBatch
	case "zero":
		return &s.Zero
	case "shard":
		return &s.Shard
	case "auto":
		return &s.Auto
	case "bucket":
		return &s.Bucket
	case "host":
		return &s.Host
	}
	return nil
}

// betweenWords matches commas that separate words, unlike those of layers=8,7.
var betweenWords = regexp.MustCompile(`(?: ?,)+ ?([a-z]|$)`)

// words splits a line at spaces, semicolons and commas.
func words(line string) []string {
	line = strings.Join(strings.Fields(strings.ReplaceAll(line, ";", " ")), " ")
	return strings.Fields(betweenWords.ReplaceAllString(line, " $1"))
}

// Parse reads a strategy from words in any order, separated by spaces, commas or semicolons: dp=8 tp=4 pp=2
// micro=4 zero=1 sp recompute=full:3. Fields that are not mentioned are 0.
func Parse(line string) (Strategy, error) {
	s, _, err := ParsePart(line)
	return s, err
}

// ParsePart is like Parse and also returns the words that were given, in order, each as key=value.
func ParsePart(line string) (s Strategy, said []string, err error) {
	var seen []string
	said = words(line)
	for _, w := range said {
		key, value, _ := strings.Cut(w, "=")
		if slices.Contains(seen, key) {
			return Strategy{}, nil, fmt.Errorf("strategy: %s is said twice in %q", key, strings.Join(said, " "))
		}
		seen = append(seen, key)
		if err := s.set(key, value); err != nil {
			return Strategy{}, nil, fmt.Errorf("strategy: %q: %w", w, err)
		}
	}
	return s, said, nil
}

// set reads the value of one key.
func (s *Strategy) set(key, value string) (err error) {
	switch key {
	case "sp":
		s.Sequence, err = flag(key, value)
	case "overlap":
		if value == "" {
			value = "true"
		}
		err = s.Overlap.UnmarshalText([]byte(value))
	case "schedule":
		if s.Schedule = value; s.OwnSchedule() {
			err = fmt.Errorf("want the name of a schedule")
		}
	case "cp_kind":
		s.Context = value
	case "amp":
		s.AMP = value
	case "recompute":
		err = s.Recompute.UnmarshalText([]byte(value))
	case "offload.optimizer":
		s.Offload.Optimizer, err = part(value)
	case "offload.activations":
		s.Offload.Activations, err = part(value)
	case "offload.parameters":
		s.Offload.Parameters, err = part(value)
	case "offload.experts":
		s.Offload.Experts, err = part(value)
	case "offload.dir":
		s.Offload.Dir = value
	case "fused_passes":
		s.FusedPasses, err = ParsePasses(value)
	case "layers":
		s.Layers, err = layerList(value)
	default:
		at := s.number(key)
		if at == nil {
			return fmt.Errorf(
				"want dp, tp, pp, cp, ep, etp, branches, vpp, micro, micro_batch, zero, shard, schedule, sp, " +
					"cp_kind, recompute, offload.optimizer, offload.activations, offload.parameters, offload.experts, " +
					"offload.dir, layers, amp, " +
					"overlap, bucket, host, fused_passes or auto",
			)
		}
		*at, err = strconv.Atoi(value)
	}
	return err
}

func flag(key, value string) (bool, error) {
	if value != "" && value != "true" && value != "false" {
		return false, fmt.Errorf("want %s or %s=false", key, key)
	}
	return value != "false", nil
}

func part(value string) (float64, error) {
	x, err := strconv.ParseFloat(value, 64)
	if err == nil && !(x >= 0 && x <= 1) {
		err = fmt.Errorf("want a part from 0 to 1")
	}
	return x, err
}

func layerList(text string) ([]int, error) {
	var out []int
	for w := range strings.SplitSeq(text, ",") {
		n, err := strconv.Atoi(w)
		if err != nil {
			return nil, err
		}
		out = append(out, n)
	}
	return out, nil
}

// ParseMesh reads only the degrees, such as dp=2,tp=2,pp=2, into a strategy.
func ParseMesh(text string) (Strategy, error) {
	var s Strategy
	var seen []string
	if strings.TrimSpace(text) == "" {
		return s, nil
	}
	for word := range strings.SplitSeq(text, ",") {
		key, value, _ := strings.Cut(strings.TrimSpace(word), "=")
		n, err := strconv.Atoi(value)
		switch {
		case !slices.Contains(axes, key):
			return Strategy{}, fmt.Errorf("mesh %q: no axis %q: want dp, tp, pp, cp or ep", text, key)
		case err != nil || n < 1:
			return Strategy{}, fmt.Errorf("mesh %q: axis %s: got %q, want a number from 1 on", text, key, value)
		case slices.Contains(seen, key):
			return Strategy{}, fmt.Errorf("mesh %q: axis %s comes twice", text, key)
		}
		*s.number(key), seen = n, append(seen, key)
	}
	return s, nil
}

// Line returns the strategy in the form that Parse reads: dp=8 tp=4 pp=2 micro=4 zero=1 sp recompute=full. A
// custom schedule's text does not fit on a line: it is written as schedule=own, which Parse rejects.
func (s Strategy) Line() string {
	n, rest := s.Filled(), s
	if rest.VPP = 0; s.VPP <= 1 && n.VPP == rest.Filled().VPP {
		n.VPP = 0 // the default is not written
	}
	list := []string{fmt.Sprintf("dp=%d tp=%d pp=%d", n.DP, n.TP, n.PP)}
	add := func(use bool, key, value string) {
		if use {
			list = append(list, key+value)
		}
	}
	for _, f := range []struct {
		key string
		def int
	}{{"cp", 1}, {"ep", 1}, {"etp", 1}, {"branches", 1}, {"vpp", 0}, {"micro", 0}, {"micro_batch", 0},
		{"zero", 0}, {"shard", 0},
		{"bucket", 0}, {"host", 0}, {"auto", 0}} {
		x := *n.number(f.key)
		add(x != f.def, f.key, "="+strconv.Itoa(x))
	}
	if n.OwnSchedule() {
		n.Schedule = "own"
	}
	add(n.Schedule != "", "schedule=", n.Schedule)
	add(n.Sequence, "sp", "")
	add(n.Context != "", "cp_kind=", n.Context)
	add(n.Recompute.Mode() != None, "recompute=", string(n.Recompute))
	add(n.Offload.Optimizer != 0, "offload.optimizer=", strconv.FormatFloat(n.Offload.Optimizer, 'g', -1, 64))
	add(
		n.Offload.Activations != 0,
		"offload.activations=",
		strconv.FormatFloat(n.Offload.Activations, 'g', -1, 64),
	)
	add(n.Offload.Parameters != 0, "offload.parameters=", strconv.FormatFloat(n.Offload.Parameters, 'g', -1, 64))
	add(n.Offload.Experts != 0, "offload.experts=", strconv.FormatFloat(n.Offload.Experts, 'g', -1, 64))
	add(n.Offload.Dir != "", "offload.dir=", n.Offload.Dir)
	add(len(n.Layers) > 0, "layers=", strings.Trim(strings.ReplaceAll(fmt.Sprint(n.Layers), " ", ","), "[]"))
	add(n.AMP != "" && n.AMP != "off", "amp=", n.AMP)
	add(n.Overlap != Auto, "overlap=", string(n.Overlap))
	add(len(n.FusedPasses) > 0, "fused_passes=", strings.Join(n.FusedPasses, "+"))
	return strings.Join(list, " ")
}
