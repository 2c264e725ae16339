package dryrun_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/galley-ml/galley/internal/dryrun"
	"github.com/galley-ml/galley/models"
	"github.com/galley-ml/galley/strategy"
)

// TestTasks: steps of models whose heads label sequences, or tokens, are planned like those that predict.
func TestTasks(t *testing.T) {
	for _, name := range []string{"bert_answers", "bert_tokens", "distilbert_classes", "roberta"} {
		text, err := os.ReadFile(filepath.Join("../../models/testdata", name, "config.json"))
		if err != nil {
			t.Fatal(err)
		}
		config, err := models.ParseConfig(text)
		if err != nil {
			t.Fatal(err)
		}
		run := dryrun.Run{Model: config, Batch: 4, Seq: 8, Strategy: strategy.Strategy{DP: 2, TP: 2}}
		p, err := dryrun.Plan(run)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if n := len(dryrun.Memory(p)); n != 4 {
			t.Errorf("%s: got the memory of %d devices, want 4", name, n)
		}
	}
}
