// Package job lets several processes train as one. mpirun, srun or galley launch starts them, each calls
// Join, and the devices of a strategy are distributed evenly over them. Losses and parameters are bit for bit
// those of a single process.
//
//	j, err := job.Join() // nil if the process was started alone
//	e, err := galley.NewEngine(galley.EngineConfig{Model: model, Strategy: &s, Job: j})
//	err = j.End(train(e), func(err error) { log.Print(err) }) // the first process reports any error
package job
