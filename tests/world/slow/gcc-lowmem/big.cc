// Much of the standard library, with templates made for many types.
#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <regex>
#include <string>
#include <tuple>
#include <unordered_map>
#include <variant>
#include <vector>

template <int N> struct Record {
    std::map<std::string, std::vector<std::tuple<int, double, std::string>>> rows;
    std::unordered_map<int, std::shared_ptr<Record>> children;
    std::variant<int, std::string, std::vector<double>> value;
    std::function<int(const Record &)> rank;
    int key[N];
};

template <int N> int use(const std::string &text) {
    Record<N> record;
    record.rows[text].emplace_back(N, 0.5 * N, text);
    record.children[N] = std::make_shared<Record<N>>();
    record.value = std::vector<double>(N, 1.0);
    record.rank = [](const Record<N> &of) { return int(of.rows.size()); };
    std::vector<std::pair<int, std::string>> order;
    for (const auto &[name, row] : record.rows) order.emplace_back(int(row.size()), name);
    std::sort(order.begin(), order.end(), [](const auto &a, const auto &b) { return a.second < b.second; });
    return std::visit([](const auto &) { return N; }, record.value) + record.rank(record) + int(order.size());
}

int all(const std::string &text) {
    std::smatch found;
    int sum = std::regex_search(text, found, std::regex("a(b|c)*d"));
    sum += use<1>(text) + use<2>(text) + use<3>(text) + use<4>(text) + use<5>(text) + use<6>(text) + use<7>(text) + use<8>(text);
    return sum;
}
