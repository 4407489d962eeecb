//! The statements of transactions that the client sends one by one.

use pgdyno_dataset::tpcc::Profile;

use crate::tpcc::transaction_kind::Kind;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Statement {
    Begin,
    Commit,
    Rollback,
    /// Reads the customer and the warehouse.
    NewOrderCustomer,
    NewOrderDistrict,
    NewOrderItem,
    NewOrderStock,
    NewOrderOrder,
    NewOrderOpen,
    NewOrderLine,
    CustomerByName,
    PaymentWarehouse,
    PaymentDistrict,
    PaymentCustomer,
    PaymentHistory,
    StatusCustomer,
    StatusOrder,
    StatusLines,
    DeliveryOpen,
    DeliveryOrder,
    DeliveryLines,
    DeliveryCustomer,
    StockDistrict,
    StockCount,
}

impl Statement {
    /// All statements, in the order of their numbers.
    pub const ALL: [Self; 24] = {
        use Statement::*;
        [
            Begin, Commit, Rollback, NewOrderCustomer, NewOrderDistrict, NewOrderItem, NewOrderStock, NewOrderOrder,
            NewOrderOpen, NewOrderLine, CustomerByName, PaymentWarehouse, PaymentDistrict, PaymentCustomer,
            PaymentHistory, StatusCustomer, StatusOrder, StatusLines, DeliveryOpen, DeliveryOrder, DeliveryLines,
            DeliveryCustomer, StockDistrict, StockCount,
        ]
    };

    pub fn of(kind: Kind) -> &'static [Self] {
        use Statement::*;
        match kind {
            Kind::NewOrder => &[
                Begin, NewOrderCustomer, NewOrderDistrict, NewOrderItem, NewOrderStock, NewOrderOrder, NewOrderOpen,
                NewOrderLine, Commit,
            ],
            Kind::RolledBack => &[Begin, NewOrderCustomer, NewOrderDistrict, NewOrderItem, NewOrderStock, Rollback],
            Kind::Payment => {
                &[Begin, PaymentWarehouse, PaymentDistrict, CustomerByName, PaymentCustomer, PaymentHistory, Commit]
            }
            Kind::OrderStatus => &[Begin, CustomerByName, StatusCustomer, StatusOrder, StatusLines, Commit],
            Kind::Delivery => &[Begin, DeliveryOpen, DeliveryOrder, DeliveryLines, DeliveryCustomer, Commit],
            Kind::StockLevel => &[Begin, StockDistrict, StockCount, Commit],
        }
    }

    /// The text; parameters are numbered without gaps.
    pub fn sql(self, profile: Profile) -> String {
        let is_spec = profile == Profile::Spec;
        let counted = |counts: &'static str| if is_spec { counts } else { "" };
        match self {
            Self::NewOrderStock => {
                let counts = counted(
                    ", s_ytd = s_ytd + $3::int, s_order_cnt = s_order_cnt + 1, s_remote_cnt = s_remote_cnt + $5::int",
                );
                format!(
                    "update stock set s_quantity = s_quantity - $3::int \
                     + case when s_quantity >= $3::int + 10 then 0 else 91 end{counts} \
                     where s_i_id = $1 and s_w_id = $2 returning s_quantity, s_data, \
                     case $4::int when 1 then s_dist_01 when 2 then s_dist_02 when 3 then s_dist_03 \
                     when 4 then s_dist_04 when 5 then s_dist_05 when 6 then s_dist_06 when 7 then s_dist_07 \
                     when 8 then s_dist_08 when 9 then s_dist_09 else s_dist_10 end"
                )
            }
            Self::PaymentCustomer => {
                let counts = counted(", c_payment_cnt = c_payment_cnt + 1");
                format!(
                    "update customer set c_balance = c_balance - $4::numeric, \
                     c_ytd_payment = c_ytd_payment + $4::numeric{counts}, \
                     c_data = case when c_credit = 'BC' then left(concat_ws(' ', c_id, c_d_id, c_w_id, \
                     $5::int, $6::int, $4::numeric) || '|' || c_data, 500) else c_data end \
                     where c_w_id = $1 and c_d_id = $2 and c_id = $3 \
                     returning c_first, c_middle, c_last, c_street_1, c_street_2, c_city, c_state, c_zip, c_phone, \
                     c_since, c_credit, c_credit_lim, c_discount, c_balance, \
                     case when c_credit = 'BC' then left(c_data, 200) end"
                )
            }
            Self::DeliveryCustomer => {
                let counts = counted(", c_delivery_cnt = c_delivery_cnt + 1");
                format!(
                    "update customer set c_balance = c_balance + $4{counts} \
                     where c_w_id = $1 and c_d_id = $2 and c_id = $3"
                )
            }
            other => other.same_for_all().to_owned(),
        }
    }

    /// The text of a statement that is the same in both profiles.
    fn same_for_all(self) -> &'static str {
        match self {
            Self::Begin => "begin",
            Self::Commit => "commit",
            Self::Rollback => "rollback",
            Self::NewOrderCustomer => {
                "select c_discount, c_last, c_credit, w_tax from customer, warehouse \
                 where w_id = $1 and c_w_id = $1 and c_d_id = $2 and c_id = $3"
            }
            Self::NewOrderDistrict => {
                "update district set d_next_o_id = d_next_o_id + 1 where d_w_id = $1 and d_id = $2 \
                 returning d_next_o_id - 1, d_tax"
            }
            Self::NewOrderItem => "select i_price, i_name, i_data from item where i_id = $1",
            Self::NewOrderOrder => {
                "insert into orders (o_id, o_d_id, o_w_id, o_c_id, o_entry_d, o_ol_cnt, o_all_local) \
                 values ($1, $2, $3, $4, now(), $5, $6)"
            }
            Self::NewOrderOpen => "insert into new_order (no_o_id, no_d_id, no_w_id) values ($1, $2, $3)",
            Self::NewOrderLine => {
                "insert into order_line (ol_o_id, ol_d_id, ol_w_id, ol_number, ol_i_id, ol_supply_w_id, \
                 ol_quantity, ol_amount, ol_dist_info) values ($1, $2, $3, $4, $5, $6, $7, $8, $9)"
            }
            Self::CustomerByName => {
                "select (array_agg(c_id order by c_first))[(count(*) + 1) / 2] from customer \
                 where c_w_id = $1 and c_d_id = $2 and c_last = $3"
            }
            Self::PaymentWarehouse => {
                "update warehouse set w_ytd = w_ytd + $2 where w_id = $1 \
                 returning w_name, w_street_1, w_street_2, w_city, w_state, w_zip"
            }
            Self::PaymentDistrict => {
                "update district set d_ytd = d_ytd + $3 where d_w_id = $1 and d_id = $2 \
                 returning d_name, d_street_1, d_street_2, d_city, d_state, d_zip"
            }
            Self::PaymentHistory => {
                "insert into history (h_c_d_id, h_c_w_id, h_c_id, h_d_id, h_w_id, h_date, h_amount, h_data) \
                 values ($1, $2, $3, $4, $5, now(), $6, $7::text || '    ' || $8::text)"
            }
            Self::StatusCustomer => {
                "select c_first, c_middle, c_last, c_balance from customer \
                 where c_w_id = $1 and c_d_id = $2 and c_id = $3"
            }
            Self::StatusOrder => {
                "select o_id, o_entry_d, o_carrier_id from orders \
                 where o_w_id = $1 and o_d_id = $2 and o_c_id = $3 order by o_id desc limit 1"
            }
            Self::StatusLines => {
                "select ol_i_id, ol_supply_w_id, ol_quantity, ol_amount, ol_delivery_d from order_line \
                 where ol_w_id = $1 and ol_d_id = $2 and ol_o_id = $3"
            }
            Self::DeliveryOpen => {
                "delete from new_order where no_w_id = $1 and no_d_id = $2 and no_o_id = \
                 (select no_o_id from new_order where no_w_id = $1 and no_d_id = $2 \
                 order by no_o_id limit 1 for update) returning no_o_id"
            }
            Self::DeliveryOrder => {
                "update orders set o_carrier_id = $4 where o_w_id = $1 and o_d_id = $2 and o_id = $3 \
                 returning o_c_id"
            }
            Self::DeliveryLines => {
                "with delivered as (update order_line set ol_delivery_d = now() \
                 where ol_w_id = $1 and ol_d_id = $2 and ol_o_id = $3 returning ol_amount) \
                 select sum(ol_amount) from delivered"
            }
            Self::StockDistrict => "select d_next_o_id from district where d_w_id = $1 and d_id = $2",
            Self::StockCount => {
                "select count(distinct s_i_id) from order_line, stock \
                 where ol_w_id = $1 and ol_d_id = $2 and ol_o_id >= $3::int - 20 and ol_o_id < $3::int \
                 and s_w_id = $1 and s_i_id = ol_i_id and s_quantity < $4"
            }
            // these texts depend on the profile
            Self::NewOrderStock | Self::PaymentCustomer | Self::DeliveryCustomer => "",
        }
    }

    pub fn parameters(self, profile: Profile) -> u16 {
        let sql = self.sql(profile);
        (1..=9u16).rev().find(|number| sql.contains(&format!("${number}"))).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_places_and_parameters_have_no_gaps() {
        for (place, statement) in Statement::ALL.into_iter().enumerate() {
            assert_eq!(statement as usize, place);
            for profile in Profile::ALL {
                let sql = statement.sql(profile);
                assert!(!sql.is_empty(), "{statement:?}");
                for number in 1..=statement.parameters(profile) {
                    assert!(sql.contains(&format!("${number}")), "{sql}");
                }
            }
        }
        assert_eq!(Statement::NewOrderStock.parameters(Profile::Spec), 5);
        assert_eq!(Statement::NewOrderStock.parameters(Profile::HAMMERDB), 4);
    }
}
