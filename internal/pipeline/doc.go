// Package pipeline orders the work of pipeline stages.
//
// Its one idea is that a schedule is data: for each rank a list of actions, such as "0F0" for the forward
// pass of stage 0 on micro-batch 0. Generators make such lists, people may write them, and everything else is
// a function of them: Check finds missing actions and deadlocks, Lower adds sends and receives, Simulate
// computes a timeline, Bubble has the closed forms, and a runtime has one interpreter for any list.
//
//	s, _ := pipeline.Generate("1f1b", pipeline.Config{Ranks: 2, Micros: 4})
//	report, err := pipeline.Check(s)                           // micro-batches that each rank holds
//	program, err := pipeline.Lower(s)                          // the same with communication
//	line, err := pipeline.Simulate(s, pipeline.Uniform(1, 2))  // line.Makespan, line.Bubble(0)
//	fmt.Print(s)
//
// prints
//
//	schedule 1f1b
//	place 0 1
//	micros 4
//	0: 0F0 0F1 0B0 0F2 0B1 0F3 0B2 0B3
//	1: 1F0 1B0 1F1 1B1 1F2 1B2 1F3 1B3
//
// To run a lowered schedule, a rank executes its actions in order. F, B, I and W compute. SF and SB put a
// result on the queue to rank s.Place[a.Peer()] and never block; RF and RB take the next message from the
// queue of that rank, and wait for it. Queues between two ranks keep their order; Buffers returns the
// capacity that they need. Results that stages of one rank pass to each other are not sent.
//
// Files: action, schedule and parse are the data; generate, classic and zero make it; flow holds the
// dependencies of actions; check, messages and deadlock validate; lower adds communication and buffers counts
// it; costs, simulate and timeline run it in time, by way of program; bubble holds the closed forms; picture
// draws.
package pipeline
