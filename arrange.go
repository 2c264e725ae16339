package galley

import "github.com/galley-ml/galley/models"

// Arrange is a model as the strategy trains it on sequences of a length: with context parallelism, attention meets split
// sequences as Context says, and sequences are in an order in which all devices have equal work. It has the same parameters
// and the same losses; what cannot be had is told with the reason.
func (s Strategy) Arrange(m models.Model, seq int) (models.Model, []string, error) {
	s, err := s.withDefaults()
	if err != nil || s.CP == 1 {
		return m, nil, err
	}
	l, reasons := models.Layout{Parts: s.CP, Context: s.Context, Order: models.Zigzag}.Fit(m.Config(), seq, s.TP)
	m, err = models.Arrange(m, l)
	return m, reasons, err
}
