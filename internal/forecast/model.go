package forecast

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/galley-ml/galley/internal/plan"
	"github.com/galley-ml/galley/internal/strict"
	"github.com/galley-ml/galley/models"
)

// Shape returns a model's shape in the planner's form: its config.json, with everything that the family fills
// in.
func Shape(c models.Config) (plan.Model, error) {
	text, err := json.Marshal(c)
	if err != nil {
		return plan.Model{}, err
	}
	return plan.ParseModel(c.Family, text)
}

// ReadModel reads the shape of a config.json. For families that can be built, package models parses the file:
// what it rejects is rejected here, and its defaults are included. The planner knows further families by
// their shapes alone.
func ReadModel(name string, text []byte) (plan.Model, error) {
	var kind struct {
		Type string `json:"model_type"`
	}
	if err := json.Unmarshal(text, &kind); err == nil && slices.Contains(models.Families(), kind.Type) {
		c, err := models.ParseConfig(text)
		if err == nil {
			text, err = json.Marshal(c)
		}
		if err != nil {
			return plan.Model{}, fmt.Errorf("model %s: config.json: %w", strict.Name(name), err)
		}
	}
	return plan.ParseModel(name, text)
}
