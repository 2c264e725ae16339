// Package sockets is the comm.Transport of processes that galley launch has started where there is no MPI
// library: a TCP connection between every two of them. They learn of each other from their launcher, by the
// words of PMI-1 that MPI libraries speak, too.
package sockets
