package strategy_test

import (
	"strings"
	"testing"

	"github.com/galley-ml/galley/strategy"
)

func FuzzParse(f *testing.F) {
	for _, line := range []string{"", "dp=2,tp=2,pp=2", " cp=2 , ep=4", "dp=0", "dp=2,dp=2", "xp=1", ",",
		"dp=8 tp=4 pp=2 cp=2 ep=4 vpp=3 micro_batch=2 zero=1 sp recompute=full:3 schedule=zbh1 layers=3,4",
		"offload.optimizer=0.5; offload.activations=1 cp_kind=ulysses shard=8 micro=4",
		"pp=2 vpp=1 schedule=zbv", "offload.optimizer=NaN", "amp=bf16 overlap etp=2",
		"overlap=off bucket=100 host=8", "overlap=maybe", "bucket=-1", "schedule=a:b",
		"dp=99999999999999999999"} {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, line string) {
		s, err := strategy.Parse(line)
		if err != nil {
			return
		}
		back, err := strategy.Parse(s.Line())
		if err != nil || !back.Equal(s) {
			t.Fatalf("%q prints as %q, which reads as %q, %v", line, s.Line(), back.Line(), err)
		}
	})
}

func FuzzParseMesh(f *testing.F) {
	for _, text := range []string{"", "dp=2,tp=2,pp=2", " cp=2 , ep=4", "dp=0", "dp=2,dp=2", "zero=1", ","} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := strategy.ParseMesh(text)
		if err != nil {
			return
		}
		if min(s.DP, s.TP, s.PP, s.CP, s.EP) < 0 || s.Zero != 0 {
			t.Fatalf("%q: %+v", text, s)
		}
	})
}

func TestMistakes(t *testing.T) {
	for text, want := range map[string]string{
		"dp=2,zero=1": `no axis "zero": want dp, tp, pp, cp or ep`, "dp=0": "want a number from 1 on",
		"dp=2,dp=4": "axis dp comes twice",
	} {
		if _, err := strategy.ParseMesh(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("mesh %q: got %v, want %q", text, err, want)
		}
	}
	for text, want := range map[string]string{
		"dp=2 dp=4": "dp is said twice", "recompute=half": "want none, selective, full",
		"sp=maybe":            "want sp or sp=false",
		"offload.optimizer=2": "want a part from 0 to 1", "schedule=0F0:": "want the name of a schedule",
		"speed=1": "want dp, tp, pp",
	} {
		if _, err := strategy.Parse(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", text, err, want)
		}
	}
}

// What can only be planned is refused by a trainer, with its reason; what is said has one meaning for all.
func TestUnrunnable(t *testing.T) {
	for line, want := range map[string]string{
		"offload.activations=1": "", "offload.optimizer=0.5": "", "offload.parameters=1": "",
		"dp=4 zero=1 shard=2": "", "dp=4 zero=1 shard=3": "shard=3 devices do not divide the 4",
		"dp=2 cp=3 zero=3 shard=2": "do not divide the 6", "dp=4 cp=3 zero=3 shard=6": "",
		"dp=4 ep=2 etp=2":      "want etp=1",
		"dp=4 tp=2 ep=2 etp=2": "", "dp=2 cp=2 ep=4": "", "cp=2 cp_kind=gather": "",
		"cp=2 cp_kind=tree":  "want ring, ulysses, gather",
		"dp=2 micro_batch=2": "Micro, not MicroBatch",
		"dp=1 ep=2":          "ep=2 does not divide dp=1", "recompute=full:1": "", "ep=2": "",
		"dp=4 zero=1 shard=4": "",
		"offload.optimizer=1": "", "dp=2 cp=2 zero=1 shard=4": "",
	} {
		s, err := strategy.Parse(line)
		if err != nil {
			t.Fatal(err)
		}
		err = s.Check()
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", line, err, want)
		}
	}
}

// The number of micro-batches and their sequences follow from each other.
func TestOffload(t *testing.T) {
	for text, want := range map[string]string{"": "none", "none": "none", "optimizer": "optimizer",
		"optimizer:/tmp/x": "optimizer:/tmp/x", "activations=0.5": "50% activations",
		"25% optimizer, parameters:d": "25% optimizer, parameters:d"} {
		o, err := strategy.ParseOffload(text)
		if err != nil || o.String() != want {
			t.Errorf("%q: got %v, %v, want %s", text, o, err, want)
		}
		if back, err := strategy.ParseOffload(o.String()); err != nil || back != o {
			t.Errorf("%q prints as %q, which reads as %v, %v", text, o, back, err)
		}
	}
	for _, text := range []string{"gradients", "optimizer:", "optimizer,optimizer", "optimizer=2", "optimizer=x",
		"-5% optimizer"} {
		if _, err := strategy.ParseOffload(text); err == nil ||
			!strings.Contains(err.Error(), "want none, or parts") {
			t.Errorf("%q: got %v", text, err)
		}
	}
}

func TestMicros(t *testing.T) {
	for _, x := range []struct {
		line                string
		batch, micros, each int
	}{
		{"dp=2 micro=4", 16, 4, 2}, {"dp=2 micro_batch=2", 16, 4, 2}, {"pp=4", 16, 4, 4}, {"", 16, 1, 16},
		{"dp=2 micro=4 micro_batch=2", 16, 4, 2}, {"dp=2 micro=2 micro_batch=2", 16, 0, 2}, {"dp=3", 16, 0, 5},
		{"ep=4 micro=2", 16, 2, 2},
	} {
		s, err := strategy.Parse(x.line)
		if err != nil {
			t.Fatal(err)
		}
		if n := s.Micros(x.batch); n != x.micros {
			t.Errorf("%q: %d micro-batches, want %d", x.line, n, x.micros)
		}
		if z := s.Sized(x.batch); z.MicroBatch != x.each || z.Micros(x.batch) != x.micros {
			t.Errorf("%q: sized %s", x.line, z.Line())
		}
		run, err := s.ForBatch(x.batch)
		if (err == nil) != (x.micros > 0) || err == nil && (run.Micro != x.micros || run.MicroBatch != 0) {
			t.Errorf("%q: for a batch: %s, %v", x.line, run.Line(), err)
		}
	}
}
