# load.sh SOCKET ENTRIES: a server whose packed hashes may have so many entries, and a client that writes fields of a hash
redis-server --port 0 --unixsocket "$1" --save "" --appendonly no --hash-max-listpack-entries "$2" > /dev/null &
server=$!
until redis-cli -s "$1" ping > /dev/null 2>&1; do sleep 0.02; done
redis-benchmark -s "$1" -q -c 1 -P 20 -n 150000 -r 4000 HSET account field:__rand_int__ value > /dev/null
status=$?
redis-cli -s "$1" shutdown nosave
wait $server
exit $status
