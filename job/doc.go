// Package job is several processes that train as one: mpirun, srun or galley launch starts them, each joins,
// and the devices of a strategy are assigned to them evenly. Losses and parameters are those of one process,
// to the bit.
//
//	j, err := job.Join() // nil where the process was started by itself
//	e, err := galley.NewEngine(galley.EngineConfig{Model: model, Strategy: &s, Job: j})
//	err = j.End(train(e), func(err error) { log.Print(err) }) // the first process tells what ended any
package job
