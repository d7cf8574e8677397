# drops.sh COUNT: so many tables, each made and dropped in transactions of their own
for number in $(seq "$1"); do
    echo "CREATE TABLE shard_$number (id int, at int)"
    echo "DROP TABLE shard_$number"
done
