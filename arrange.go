package galley

import (
	"github.com/galley-ml/galley/internal/forecast"
	"github.com/galley-ml/galley/models"
)

// Arrange is a model as a strategy trains it on sequences of a length: with context parallelism, attention
// meets split sequences as Context says, and sequences are in an order in which all devices have equal work.
// It has the same parameters and the same losses; what cannot be had is told with the reason.
func Arrange(m models.Model, s Strategy, seq int) (models.Model, []string, error) {
	return forecast.Arrange(m, s, seq)
}
