package galley

import "github.com/galley-ml/galley/models"

// Arrange is a model as a strategy trains it on sequences of a length: with context parallelism, attention
// meets split sequences as Context says, and sequences are in an order in which all devices have equal work.
// It has the same parameters and the same losses; what cannot be had is told with the reason.
func Arrange(m models.Model, s Strategy, seq int) (models.Model, []string, error) {
	s, err := s.WithDefaults()
	if err != nil || s.CP == 1 && s.EP == 1 {
		return m, nil, err
	}
	want := models.Layout{Experts: s.EP}
	if s.CP > 1 {
		want.Parts, want.Context, want.Order = s.CP, s.Context, models.Zigzag
	}
	l, reasons := want.Fit(m.Config(), seq, s.TP)
	m, err = models.Arrange(m, l)
	return m, reasons, err
}
