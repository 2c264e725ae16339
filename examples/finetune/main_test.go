package main

func Example() {
	main()
	// Output:
	// loss 5.4 at first; below 0.1 after 120 steps: true
	// It was the best of times, it was the worst of times, it
}
