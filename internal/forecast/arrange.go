package forecast

import (
	"fmt"

	"github.com/galley-ml/galley/models"
	"github.com/galley-ml/galley/strategy"
)

// Arrange returns a model adapted to a strategy and sequence length, with the reason for each setting that it
// does not support.
func Arrange(m models.Model, s strategy.Strategy, seq int) (models.Model, []string, error) {
	s, err := s.WithDefaults()
	if err != nil || s.CP == 1 && s.EP == 1 && s.Offload.Experts == 0 {
		return m, nil, err
	}
	if s.Offload.Experts > 0 && m.Config().Experts == 0 {
		return nil, nil, fmt.Errorf(
			"offload of experts: %s has none: want optimizer or parameters",
			m.Config().Family,
		)
	}
	want := models.Layout{Experts: s.EP}
	if s.CP > 1 {
		want.Parts, want.Context, want.Order = s.CP, s.Context, models.Zigzag
	}
	l, reasons := want.Fit(m.Config(), seq, s.TP)
	m, err = models.Arrange(m, l)
	return m, reasons, err
}
