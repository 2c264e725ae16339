package forecast_test

import (
	"testing"

	"github.com/galley-ml/galley/internal/forecast"
	"github.com/galley-ml/galley/internal/plan"
)

// TestConfigOf: every preset of the planner is a model that can be built.
func TestConfigOf(t *testing.T) {
	for _, name := range plan.ModelPresets() {
		m, err := plan.ModelPreset(name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := forecast.ConfigOf(m); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := forecast.ConfigOf(plan.Model{Name: "x", Encoder: true}); err == nil {
		t.Error("an encoder is no language model")
	}
}
