package program

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"time"

	"github.com/courierhq/courier"
)

// RetryDelay returns the time before retry number n of an execution, counting from 0,
// after an attempt. The random part of the backoff follows from these, so that another
// worker which repeats the decision comes to the same.
func RetryDelay(p courier.FailurePolicy, x *courier.Execution, attempt, n int) time.Duration {
	least, most := p.BackoffRange(n)
	if least == most {
		return most
	}
	h := fnv.New64a()
	fmt.Fprintf(h, "%s/%d/%d/%d", x.ID, x.Attempt, attempt, n)
	dice := rand.New(rand.NewPCG(h.Sum64(), 0))
	return most - time.Duration(dice.Int64N(int64(most-least)+1))
}
