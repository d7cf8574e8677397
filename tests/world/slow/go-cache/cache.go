// A cache of a million entries, and requests that put an entry in the place of another and throw the rest of their answer away.
package main

import "fmt"

type entry struct {
	next *entry
	key  int
	text [14]int
}

func answer(key int) []*entry {
	rows := make([]*entry, 0, 16)
	for at := 0; at < 16; at++ {
		rows = append(rows, &entry{key: key + at})
	}
	return rows
}

func main() {
	cache := make([]*entry, 1200000)
	for at := range cache {
		cache[at] = &entry{key: at}
	}
	sum := 0
	for request := 0; request < 450000; request++ {
		rows := answer(request)
		cache[request*7919%len(cache)] = rows[3]
		sum += rows[request%16].key
	}
	fmt.Println(sum)
}
