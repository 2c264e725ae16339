// Package commtest holds what every implementation of comm.Comm must do: a suite that any of them can run.
//
// Each check is a body that all ranks run. It makes the inputs of all of them from numbers that they share
// and so can say by itself, with loops too plain to be wrong, what the collective must give, bit for bit.
//
//	func TestConformance(t *testing.T) {
//		commtest.Run(t, func(n int, body func(comm.Comm) error) error {
//			w, err := inproc.New(n)
//			if err != nil {
//				return err
//			}
//			return w.Run(t.Context(), func(_ context.Context, c comm.Comm) error { return body(c) })
//		})
//	}
package commtest
