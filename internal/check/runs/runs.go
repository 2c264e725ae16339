package runs

import (
	"fmt"
	"io"

	"github.com/galley-ml/galley/internal/check/report"
	"github.com/galley-ml/galley/internal/plan"
)

// Config is the options of Compare.
type Config struct {
	// Verbose prints every row.
	Verbose bool
	// Calibration is the level-1 curves to start from; nil means the published micro-benchmarks.
	Calibration *plan.Calibration
	// Seen is a file to which the residuals of the runs are written; empty writes none.
	Seen string
}

// Compare predicts the published runs of a file and compares. Constants that are fitted to whole runs are
// never fitted to the source that they are reported on.
func Compare(w io.Writer, path string, c Config) (*report.Report, error) {
	rows, err := readRuns(path)
	if err != nil {
		return nil, err
	}
	cal := plan.Published()
	if c.Calibration != nil {
		cal = *c.Calibration
	}
	t := &runTable{w: w, cal: cal, verbose: c.Verbose}
	t.read(rows)
	t.print()
	if c.Seen != "" {
		if err := t.writeSeen(c.Seen); err != nil {
			return nil, err
		}
	}
	r := report.Counted(w, t.used, 0)
	fmt.Fprintf(w, "%d rows predicted, %d not used\n", t.used, len(rows)-t.used)
	return r, nil
}

// runTable is the rows by source.
type runTable struct {
	w       io.Writer
	cal     plan.Calibration
	verbose bool
	sources []*runSource
	used    int
}

// runSource is the rows of one source.
type runSource struct {
	name   string
	rows   int
	cases  []*runCase
	unused []unusedRows
	unread [][]string // unused fields, by row
	// level1 and held are the scores with published curves only and with constants of other sources.
	level1, held runScore
	// saw is the residuals of its rows by kind; least and most are the factors from the other sources.
	saw         []plan.Residual
	least, most float64
}

type unusedRows struct {
	why string
	n   int
}

func (t *runTable) source(name string) *runSource {
	for _, s := range t.sources {
		if s.name == name {
			return s
		}
	}
	s := &runSource{name: name}
	t.sources = append(t.sources, s)
	return s
}

// read turns rows into cases, estimates them with the curves alone, and then with constants fitted to other
// sources.
func (t *runTable) read(rows []runRow) {
	for i := range rows {
		s := t.source(rows[i].origin())
		s.rows++
		c, err := newRunCase(&rows[i])
		if err == nil {
			err = c.estimate(t.cal)
		}
		s.unread = append(s.unread, rows[i].unread)
		if err != nil {
			s.skip(err.Error())
			continue
		}
		s.cases = append(s.cases, c)
		t.used++
	}
	for _, s := range t.sources {
		for _, c := range s.cases {
			c.plain = c.got.Step
		}
		s.level1, s.saw = score(s.cases), s.seen()
	}
	for _, s := range t.sources {
		t.hold(s, t.others(s))
	}
}

func (s *runSource) skip(why string) {
	for i := range s.unused {
		if s.unused[i].why == why {
			s.unused[i].n++
			return
		}
	}
	s.unused = append(s.unused, unusedRows{why, 1})
}

func (c *runCase) estimate(cal plan.Calibration) error {
	e, err := plan.NewEstimator(c.workload, c.cluster, cal)
	if err != nil {
		return err
	}
	if c.open.any() {
		return c.choose(e)
	}
	c.got, err = e.Estimate(c.strategy)
	return err
}
