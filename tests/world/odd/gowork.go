// alpha 3 : beta 1, below work.
package main

import (
	"os"
	"strconv"
	"time"
)

var sink uint64

//go:noinline
func alpha(rounds int) {
	state := uint64(1)
	for i := 0; i < rounds; i++ {
		state = state*6364136223846793005 + (state >> 33)
	}
	sink += state
}

//go:noinline
func beta(rounds int) {
	state := uint64(7)
	for i := 0; i < rounds; i++ {
		state = state*2862933555777941757 + (state >> 31)
	}
	sink += state
}

//go:noinline
func work(rounds int) {
	alpha(3 * rounds)
	beta(rounds)
}

func main() {
	seconds, _ := strconv.ParseFloat(os.Args[1], 64)
	for end := time.Now().Add(time.Duration(seconds * 1e9)); time.Now().Before(end); {
		work(100000)
	}
}
