-- Records that a worker claims nothing more, until its next claim. $1 its name.
update courier.workers set draining = true where name = $1::text
