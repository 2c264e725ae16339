// Package mpi is the comm.Transport of processes that an MPI launcher has started. The library is loaded at
// run time, without cgo: one binary runs with Open MPI, with MPICH and without either.
//
//	job, ok := mpi.Launched()              // did mpirun, srun or the like start this process?
//	engine, err := mpi.Open(job)           // loads the launcher's library and joins the job
//	p := process.Join(engine)
//
// Of MPI it uses non-blocking messages alone: no reductions, derived communicators or data types. One
// goroutine at a time makes calls: one that waits for something, or one in the background while none waits.
package mpi
